//! Reads records and fields of particular forms.

use ldif::walk::each_record;
use ldif::{Code, Counters, Error, Input, Record};

fn visit(text: &[u8], see: impl FnMut(&Record<'_>) -> ldif::Result<()>) -> ldif::Result<u64> {
    each_record(Input::from_reader(text), &Counters::default(), see)
}

fn values(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    visit(text.as_bytes(), |record| {
        let entry = record.entry()?;
        found.push(("dn".to_owned(), text_of(&entry.dn)));
        for field in entry.fields {
            let field = field?;
            found.push((text_of(field.description()), text_of(&field.value()?)));
        }
        Ok(())
    })
    .unwrap();
    found
}

fn failure(text: &str) -> Error {
    let read = |record: &Record<'_>| record.entry()?.fields.try_for_each(|field| field?.value().map(drop));
    visit(text.as_bytes(), read).unwrap_err()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn comments_may_be_anywhere_and_folded() {
    let text = "# head\n folded\n\nversion: 1\n# between\ndn: cn=a\n# inside\n\
                # and\n  again\ncn: a\n\n# tail\n\n# last\n";
    assert_eq!(values(text), [pair("dn", "cn=a"), pair("cn", "a")]);
}

#[test]
fn version_lines_and_changetype_add_are_accepted() {
    for text in [
        "version: 1\ndn: cn=a\ncn: a\n",
        "VERSION:1\r\n\r\ndn: cn=a\r\ncn: a\r\n",
        "dn: cn=a\n# why\nChangeType: ADD\ncn: a\n", // an added entry is an entry
    ] {
        assert_eq!(values(text), [pair("dn", "cn=a"), pair("cn", "a")]);
    }
    let error = failure("\nversion: 2\ndn: cn=a\ncn: a\n");
    assert_eq!((error.code, error.line), (Code::Version, Some(2)));
}

#[test]
fn spaces_after_the_colon_are_not_part_of_the_value() {
    let text = "dn:   cn=a\ncn:a\nsn:\ntitle:   b c \nl:: YQ== \n";
    let expected = [("dn", "cn=a"), ("cn", "a"), ("sn", ""), ("title", "b c "), ("l", "a")];
    assert_eq!(values(text), expected.map(|(name, value)| pair(name, value)));
}

#[test]
fn an_error_has_its_line_and_entry() {
    for (text, code, line) in [
        ("changetype: modify\ncn: a\n\n", Code::ChangeType, 2),
        ("changetype: delete\ncn: a\n\n", Code::ChangeType, 2),
        ("control: 1.2.3 true\ncn: a\n\n", Code::ChangeType, 2),
        ("jpegPhoto:< file:///etc/shadow\n\n", Code::Url, 2),
        ("cn: a\nno colon\nsn: a\n\n", Code::Syntax, 3),
        ("cn: a\n: no name\n\n", Code::Syntax, 3),
        ("cn: a\na b: c\n\n", Code::Syntax, 3),
        ("cn:: %%%\nsn: a\n\n", Code::Syntax, 2),
        ("cn:: YQ\nsn: a\n\n", Code::Syntax, 2),
    ] {
        let error = failure(&format!("dn: cn=a\n{text}"));
        assert_eq!((error.code, error.line), (code, Some(line)), "{text}");
        let named = error.dn.as_deref() == Some("cn=a");
        assert!(named || code == Code::ChangeType && error.dn.is_none(), "{text}");
    }
    for text in ["cn: a\ndn: cn=a\n\n", " folded\n\n", "search: 2\nresult: 0 Success\n\n"] {
        let error = failure(text);
        assert_eq!((error.code, error.line, error.dn), (Code::Syntax, Some(1), None), "{text}");
    }
}

#[test]
fn lines_are_counted_across_folds_and_blocks() {
    let record = "dn: cn=a\ncn: a\n  folded\nsn: a\n\n";
    let text = record.repeat(50_000) + "dn: cn=b\nbroken\n\n";
    let error = failure(&text);
    assert_eq!((error.line, error.dn.as_deref()), (Some(250_002), Some("cn=b")));
}

#[test]
fn incomplete_base64_in_a_full_last_line_is_truncation() {
    let folded = "YWFh".repeat(20);
    for text in [format!("dn: cn=a\nsn: a\ncn:: {folded}Y\n"), format!("dn: cn=a\ncn:: {folded}\n hYWFhY\n")] {
        assert_eq!(failure(&text).code, Code::Truncated, "{text}");
        assert_eq!(failure(&format!("{text}\n")).code, Code::Syntax, "{text}");
    }
    for text in ["dn: cn=a\ncn:: Y\n\ndn: cn=b\ncn: b\n", "dn: cn=a\ncn:: !!!!\n", "dn: cn=a\ncn:: YWF\n"] {
        assert_eq!(failure(text).code, Code::Syntax, "{text}");
    }
}

#[test]
fn other_formats_and_common_mistakes_are_named() {
    let cases = [
        ("<html><body>Please log in</body></html>\n", "HTML"),
        ("dn,uid\n\"dc=example,dc=com\",a\n", "CSV"),
        ("{\"dn\": \"cn=a\"}\n", "JSON"),
        ("dn: cn=a\ncn: a\n\n\x1a\n", "Ctrl-Z"),
        ("dn: cn=a\ncn: a\n\nsearch: 2\nresult: 0 Success\n", "-LLL"),
        ("dn: cn=a\nmail:\na@example.com\n", "begins with a space"),
        ("dn: cn=a\ncn: a\ndn: cn=b\ncn: b\n", "the blank line before it is missing"),
        ("dn: cn=a\nsn:: !!!!\n", "the base64 value of sn does not decode"),
        ("mail: a\n", "a record begins with \"dn:\""),
    ];
    for (text, cause) in cases {
        let error = failure(text);
        assert_eq!(error.code, Code::Syntax, "{text}");
        assert!(error.message.contains(cause), "{text}: {error}");
    }
    let error = failure("dn: cn=a\nchangetype: modify\nreplace: cn\ncn: b\n-\n");
    assert_eq!(error.code, Code::ChangeType);
    assert!(error.message.contains("ldapmodify"), "{error}");
}

#[test]
fn an_input_without_records_is_valid() {
    for text in ["", "\n\n", "# only this\n", "version: 1\n"] {
        assert_eq!(values(text), []);
    }
}

#[test]
fn an_endless_record_is_refused_before_memory_is_exhausted() {
    let endless = std::io::repeat(b'a');
    let mut blocks = ldif::blocks::Blocks::with_sizes(endless, 1024, 1 << 20);
    assert_eq!(blocks.next_block().unwrap_err().code, Code::TooLarge);
}

#[test]
fn a_cancelled_walk_reads_nothing() {
    let counters = Counters::default();
    counters.cancel();
    let input = Input::from_reader(&b"dn: cn=a\ncn: a\n"[..]);
    let error = each_record(input, &counters, |_| Ok(())).unwrap_err();
    assert_eq!(error.code, Code::Cancelled);
}

#[test]
fn a_url_is_read_only_on_request_and_only_from_a_file() {
    let read = |url: &str| {
        let text = format!("dn: cn=a\ncn:< {url}\n");
        let block = ldif::blocks::Block { bytes: text.as_bytes(), line: 1, last: true };
        let record = ldif::records::Records::new(&block).next().unwrap().unwrap();
        let fields = record.entry().unwrap().fields;
        assert_eq!(fields.clone().next().unwrap().unwrap_err().code, ldif::Code::Url);
        let field = fields.with_urls().next().unwrap().unwrap();
        field.value().map(std::borrow::Cow::into_owned).map_err(|error| error.code)
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"a\0b").unwrap();
    assert_eq!(read(&format!("file://{}", file.path().display())), Ok(b"a\0b".to_vec()));
    for url in ["file:///dev/zero", "file:///", "http://localhost/", "file:///nowhere"] {
        assert_eq!(read(url), Err(ldif::Code::Url), "{url}");
    }
}
