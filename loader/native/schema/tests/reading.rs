//! Definitions become attribute types and classes, or an error that names the faulty definition.

mod support;

use schema::{ClassKind, Definition, Kind, Normalise, RuleKind, Schema, Settings};
use support::{schema, with};

#[test]
fn names_aliases_and_oids_are_one_type() {
    let schema = schema();
    let cn = schema.attribute(b"cn").unwrap();
    for name in ["CN", "commonname", "2.5.4.3"] {
        assert_eq!(schema.attribute(name.as_bytes()), Some(cn));
    }
    assert_eq!(schema.get(cn).name, "cn");
    assert_eq!(schema.attribute(b"cn;lang-en"), None);
}

#[test]
fn types_inherit() {
    let schema = schema();
    let cn = schema.get(schema.attribute(b"cn").unwrap());
    let chain: Vec<_> = cn.chain.iter().map(|&id| schema.get(id).name.as_str()).collect();
    assert_eq!(chain, ["name", "cn"]);
    assert_eq!(cn.syntax_oid, "1.3.6.1.4.1.1466.115.121.1.15");
    assert_eq!(cn.equality.as_ref().unwrap().oid, "2.5.13.2");
    assert_eq!(cn.substrings.as_ref().unwrap().oid, "2.5.13.4");
    assert!(cn.builtin);
    assert!(!schema.get(schema.attribute(b"sn").unwrap()).builtin);
}

#[test]
fn compiled_in_attributes_have_special_rules() {
    let schema = schema();
    let rule = |name: &[u8]| schema.get(schema.attribute(name).unwrap()).equality.clone().unwrap();
    assert_eq!(rule(b"objectClass").kind, RuleKind::ObjectClass);
    assert_eq!(rule(b"uidNumber").kind, RuleKind::Integer);
    let authz = schema.get(schema.attribute(b"authzTo").unwrap());
    assert_eq!(authz.normaliser, Normalise::Unfollowed);
    assert_eq!((authz.of_other_module(), authz.unsupported_rule()), (None, Some("authzMatch")));
}

#[test]
fn rules_of_third_party_modules_are_reported() {
    let syntax = "( 1.2.3.4 DESC 'of a module' )";
    let by_rule = "( 1.2.3.5 NAME 'byRule' EQUALITY strangeMatch SYNTAX 1.2.3.4 )";
    let by_syntax = "( 1.2.3.6 NAME 'bySyntax' SYNTAX 1.2.3.4 )";
    let kinds = [(Kind::Syntax, syntax), (Kind::AttributeType, by_rule), (Kind::AttributeType, by_syntax)];
    let unproven = |builtin: bool| {
        let definition = |(kind, text): &(Kind, &str)| Definition { kind: *kind, text: (*text).to_owned(), builtin };
        let definitions: Vec<_> = kinds.iter().map(definition).collect();
        let schema = Schema::read(&definitions, Settings::default()).unwrap();
        schema.attributes().map(|kind| kind.of_other_module().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(unproven(true), [Some("strangeMatch".to_owned()), Some("1.2.3.4".to_owned())]);
    assert_eq!(
        unproven(false),
        [Some("strangeMatch".to_owned()), None],
        "syntaxes from the configuration are not checked"
    );
}

#[test]
fn macros_expand() {
    let schema = schema();
    assert!(schema.attribute(b"1.3.6.1.4.1.99999.1.1").is_some());
    assert_eq!(schema.object_class(schema.class(b"1.3.6.1.4.1.99999.3").unwrap()).name, "shapely");
}

#[test]
fn classes_inherit() {
    let schema = schema();
    let class = schema.object_class(schema.class(b"BOSS").unwrap());
    let names =
        |ids: &[schema::AttributeId]| -> Vec<String> { ids.iter().map(|&id| schema.get(id).name.clone()).collect() };
    assert_eq!(class.kind, ClassKind::Structural);
    assert_eq!(names(&class.must), ["o", "sn", "cn", "objectClass"]);
    assert_eq!(names(&class.may), ["mail", "userPassword", "telephoneNumber", "seeAlso", "description"]);
}

#[test]
fn a_definition_may_precede_its_superior() {
    let schema = with(&["a ( 1.1.1 NAME 'lower' SUP upper )", "a ( 1.1.2 NAME 'upper' SUP name )"]);
    let schema = schema.unwrap();
    assert_eq!(schema.get(schema.attribute(b"lower").unwrap()).chain.len(), 3);
}

#[test]
fn problems_name_the_definition() {
    assert!(with(&["a ( 1.1.1 NAME ( 'x' 'X' ) SUP name )"]).is_ok(), "one type may repeat its name");
    let problem = |line: &str| with(&[line]).unwrap_err();
    for (line, what) in [
        ("a ( 1.1.1 NAME 'x' SUP nowhere )", "unknown super-type \"nowhere\""),
        ("a ( 1.1.1 NAME 'x' SUP x )", "too long or a ring"),
        ("a ( 1.1.1 NAME 'x' )", "no syntax"),
        ("a ( 1.1.1 NAME 'x' SYNTAX 1.2.3 )", "unknown syntax \"1.2.3\""),
        ("a ( 1.1.1 NAME 'CN' SUP name )", "\"CN\" is defined twice"),
        ("a ( Nope:1 NAME 'x' SUP name )", "unknown OID macro \"Nope:1\""),
        ("a ( 1.1.1 NAME 'x", "a quote does not end"),
        ("a ( 1.1.1 NAME 'x' SUP name", "closing parenthesis"),
        ("a ( 1.1.1 NAME 'x' SUP name COLOUR 'red' )", "unknown keyword \"COLOUR\""),
        ("o ( 1.1.1 NAME 'x' MUST nowhere )", "unknown attribute type \"nowhere\""),
        ("o ( 1.1.1 NAME 'x' SUP nowhere )", "unknown object class \"nowhere\""),
        ("o ( 1.1.1 NAME 'x' SUP x )", "superior of itself"),
        ("r ( 1.1.1 NAME 'x' )", "unknown object class \"1.1.1\""),
        ("m x", "a name and an OID"),
    ] {
        let message = problem(line);
        assert!(message.contains(what), "{line}: {message}");
        assert!(message.contains(&line[2..12.min(line.len())]), "{line}: {message}");
    }
}

#[test]
fn cycles_of_several_types_are_detected() {
    assert!(with(&["a ( 1.1.1 NAME 'x' SUP y )", "a ( 1.1.2 NAME 'y' SUP x )"]).is_err());
    assert!(with(&["o ( 1.1.1 NAME 'x' SUP y )", "o ( 1.1.2 NAME 'y' SUP x )"]).is_err());
}

#[test]
fn descriptions_have_one_spelling() {
    let schema = schema();
    let spelled = |text: &str| schema.describe(text.as_bytes()).map(|found| found.text);
    assert_eq!(spelled("COMMONNAME;lang-FR;lang-en;LANG-fr").unwrap(), "cn;lang-en;lang-fr");
    assert_eq!(spelled("2.5.4.36;Binary").unwrap(), "userCertificate;binary");
    assert_eq!(spelled("usercertificate;lang-x;binary").unwrap(), "userCertificate;binary;lang-x");
    for wrong in ["", "nope", "cn;", "cn;;lang-x", "cn;x-y", "cn;binary", "entryUUID;lang-x", "c n", "-x"] {
        assert!(spelled(wrong).is_err(), "{wrong}");
    }
    assert!(schema.describe_stored(b"userCertificate").is_err());
    assert!(schema.describe_stored(b"userCertificate;binary").is_ok());
}

#[test]
fn syntaxes_of_slapd_that_are_not_implemented() {
    for oid in [
        "1.3.6.1.1.15.1",
        "1.3.6.1.1.15.5",
        "1.3.6.1.4.1.4203.666.11.10.2.2",
        "1.3.6.1.4.1.4203.666.2.1",
        "1.3.6.1.4.1.4203.666.2.7",
    ] {
        let text = format!("( 1.2.3.5 NAME 'unfollowed' SYNTAX {oid} )");
        let syntax = format!("( {oid} DESC 'of slapd' )");
        let definitions = [
            Definition { kind: Kind::Syntax, text: syntax, builtin: true },
            Definition { kind: Kind::AttributeType, text, builtin: false },
        ];
        let schema = Schema::read(&definitions, Settings::default()).unwrap();
        let kind = schema.get(schema.attribute(b"unfollowed").unwrap());
        assert_eq!((kind.of_other_module(), kind.unsupported_rule()), (None, Some(oid)));
    }
}
