fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    let src = std::path::Path::new(&a[1]);
    let head = std::fs::read(src).unwrap()[..8192].to_vec();
    let length = std::fs::metadata(src).unwrap().len();
    println!("{:?}", t.elapsed());
    let t = std::time::Instant::now();
    println!(
        "{:?} {:?}",
        lmdbfile::copy::copy(
            src,
            &lmdbfile::copy::Image { head: &head, length },
            std::path::Path::new(&a[2]),
            &|_| true
        ),
        t.elapsed()
    );
}
