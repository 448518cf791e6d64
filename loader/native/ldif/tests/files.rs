//! Opens and writes files: compression, truncation, names, modes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ldif::{Code, Counters, Input, Output, Result};
use tempfile::{TempDir, tempdir};

const TEXT: &[u8] = b"dn: cn=a\ncn: a\n\n";

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn put(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn written(directory: &TempDir, name: &str, text: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    let mut output = Output::create(&path, 0).unwrap();
    output.write(text).unwrap();
    output.finish().unwrap();
    path
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    Input::from_path(path, &Counters::default())?.read_to_end(&mut text)?;
    Ok(text)
}

#[test]
fn compression_is_detected_by_content() {
    let directory = tempdir().unwrap();
    for name in ["a.ldif", "a.zst", "a.gz"] {
        for bytes in [zstd(TEXT), gzip(TEXT)] {
            assert_eq!(read(&put(&directory, name, &bytes)).unwrap(), TEXT, "{name}");
        }
    }
    assert_eq!(read(&put(&directory, "plain.ldif", TEXT)).unwrap(), TEXT);
    // Several frames form one stream. A name that indicates compression requires it.
    let twice = [TEXT, TEXT].concat();
    for bytes in [[zstd(TEXT), zstd(TEXT)].concat(), [gzip(TEXT), gzip(TEXT)].concat()] {
        assert_eq!(read(&put(&directory, "a", &bytes)).unwrap(), twice);
    }
    assert_eq!(read(&put(&directory, "b.zst", TEXT)).unwrap_err().code, Code::Corrupt);
}

#[test]
fn a_compressed_stream_truncated_anywhere_is_refused() {
    let directory = tempdir().unwrap();
    for whole in [zstd(TEXT), gzip(TEXT)] {
        let name = if whole[0] == 0x1f { "a.gz" } else { "a.zst" };
        for length in (0..4).chain(whole.len() / 2..whole.len()) {
            let error = read(&put(&directory, name, &whole[..length])).unwrap_err();
            assert_eq!(error.code, Code::Truncated, "{name} cut at {length}: {error}");
        }
    }
}

#[test]
fn an_error_names_the_file_that_cannot_be_opened() {
    let error = read(Path::new("/nowhere/a.ldif")).unwrap_err();
    assert_eq!(error.code, Code::Io);
    assert_eq!(error.path.as_deref(), Some(Path::new("/nowhere/a.ldif")));
}

#[test]
fn outputs_are_compressed_by_name_and_readable_by_their_owner_only() {
    let directory = tempdir().unwrap();
    for (name, compressed) in [("a.ldif", false), ("a.ldif.zst", true), ("b.ldif.zst.partial", true)] {
        let path = written(&directory, name, TEXT);
        assert_eq!(fs::read(&path).unwrap() != TEXT, compressed, "{name}");
        assert_eq!(read(&path).unwrap(), TEXT);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_damaged_output_is_detected_on_reading() {
    let directory = tempdir().unwrap();
    let path = written(&directory, "a.zst", &TEXT.repeat(1000));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&path, bytes).unwrap();
    assert_eq!(read(&path).unwrap_err().code, Code::Corrupt);
}

#[test]
fn a_full_disk_is_reported_as_no_space() {
    let outcome = Output::create(Path::new("/dev/full"), 0).and_then(|mut output| {
        output.write(&TEXT.repeat(1 << 16))?;
        output.finish()
    });
    assert_eq!(outcome.unwrap_err().code, Code::NoSpace);
}

#[test]
fn reading_can_begin_at_any_offset() {
    let directory = tempdir().unwrap();
    let text = [TEXT, b"dn: cn=b\ncn: b\n"].concat();
    for (name, content) in [("a.ldif", text.clone()), ("z", zstd(&text)), ("g", gzip(&text))] {
        let (path, counters) = (put(&directory, name, &content), Counters::default());
        let mut input = Input::from_path_at(&path, TEXT.len() as u64, &counters).unwrap();
        assert_eq!(input.path.as_deref(), Some(path.as_path()));
        let mut rest = Vec::new();
        input.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, text[TEXT.len()..]);
    }
}

#[test]
fn a_file_read_to_its_end_is_reported_with_its_checksum() {
    let directory = tempdir().unwrap();
    let text = TEXT.repeat(20_000);
    for (name, content) in [("a.ldif", text.clone()), ("z", zstd(&text)), ("g", gzip(&text)), ("e", Vec::new())] {
        let (path, counters) = (put(&directory, name, &content), Counters::default());
        ldif::walk::each_record(Input::from_path(&path, &counters).unwrap(), &counters, |_| Ok(())).unwrap();
        let (bytes, checksum) = (content.len() as u64, xxhash_rust::xxh3::xxh3_128(&content));
        assert_eq!(counters.files(), [common::WholeFile { path, bytes, checksum }]);
    }
    // A file that was not read to its end is not reported.
    let (path, counters) = (directory.path().join("a.ldif"), Counters::default());
    Input::from_path(&path, &counters).unwrap().take(100_000).read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(counters.files(), []);
}

#[test]
fn only_a_plain_file_may_lack_its_last_line_end() {
    let directory = tempdir().unwrap();
    let read = |name: &str, content: &[u8]| {
        let (counters, mut records) = (Counters::default(), Vec::new());
        let input = Input::from_path(&put(&directory, name, content), &counters)?;
        ldif::walk::each_record(input, &counters, |record| {
            records.extend_from_slice(record.bytes);
            Ok(())
        })?;
        Ok::<_, ldif::Error>((records, counters.open_ends().len()))
    };
    let text = b"dn: cn=a\ncn: a";
    assert_eq!(read("a.ldif", text).unwrap(), ([&text[..], b"\n"].concat(), 1));
    assert_eq!(read("b.ldif", b"dn: cn=a\ncn: a\n").unwrap().1, 0);
    assert_eq!(read("e.ldif", b"").unwrap(), (Vec::new(), 0));
    for (name, content) in [("z", zstd(text)), ("g", gzip(text))] {
        assert_eq!(read(name, &content).unwrap_err().code, Code::Truncated);
    }
    for cut in ["modifyTimestamp: 2026010100000", "entryCSN: 20260101000000.000000Z#000000#001#00"] {
        let error = read("c.ldif", format!("dn: cn=a\ncn: a\n{cut}").as_bytes()).unwrap_err();
        assert_eq!((error.code, error.line), (Code::Truncated, Some(3)), "{cut}");
    }
    let whole = b"dn: cn=a\nmodifyTimestamp: 20260101000000Z";
    assert_eq!(read("d.ldif", whole).unwrap().1, 1);
}

#[test]
fn an_open_last_line_is_truncated_only_if_more_text_could_complete_it() {
    let directory = tempdir().unwrap();
    let cases = [
        ("dn: cn=a\nobj", Code::Truncated, 2),
        ("dn: cn=a\ncn: a\n\ndn: cn=b\ncn", Code::Truncated, 5),
        ("dn: cn=a\ncn:: YW", Code::Truncated, 2),
        ("dn: cn=a\ncn: a\n\nd", Code::Truncated, 4),
        ("dn: cn=a\ncn:: !!!!", Code::Syntax, 2),
        ("dn: cn=a\ncn: a\n\n\x1a", Code::Syntax, 4),
        ("<html>", Code::Syntax, 1),
        ("dn: cn=a\njpegPhoto:< file:///tmp/a.jpg", Code::Url, 2),
    ];
    for (text, code, line) in cases {
        let (path, counters) = (put(&directory, "a.ldif", text.as_bytes()), Counters::default());
        let input = Input::from_path(&path, &counters).unwrap();
        let error = ldif::walk::each_record(input, &counters, |record| {
            record.entry()?.fields.try_for_each(|field| field?.value().map(drop))
        })
        .unwrap_err();
        assert_eq!((error.code, error.line), (code, Some(line)), "{text}: {error}");
    }
}
