fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    let r = lmdbfile::Reader::open(std::path::Path::new(&a[1])).unwrap();
    println!("{:?} {:?}", r.compact(std::path::Path::new(&a[2]), &|_| true), t.elapsed());
}
