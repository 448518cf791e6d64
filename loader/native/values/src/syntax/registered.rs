use super::Syntax;

/// The syntaxes of slapd 2.5 (`servers/slapd/schema_init.c`).
pub fn from_oid(oid: &str) -> Option<Syntax> {
    match oid.strip_prefix("1.3.6.1.4.1.1466.115.121.1.") {
        Some(number) => of_rfc_4517(number.parse().ok().filter(|_| is_plain(number))?),
        None => elsewhere(oid),
    }
}

/// `parse` would take `+6` and `06`.
fn is_plain(number: &str) -> bool {
    number.starts_with(|first: char| matches!(first, '1'..='9'))
}

fn of_rfc_4517(number: u8) -> Option<Syntax> {
    Some(match number {
        4 | 5 | 28 | 40 | 49 => Syntax::OctetString,
        6 => Syntax::BitString,
        7 => Syntax::Boolean,
        10 => Syntax::CertificatePair,
        11 => Syntax::CountryString,
        14 => Syntax::DeliveryMethod,
        15 => Syntax::DirectoryString,
        22 => Syntax::FacsimileNumber,
        24 => Syntax::GeneralizedTime,
        26 | 39 => Syntax::Ia5String,
        27 => Syntax::Integer,
        36 => Syntax::NumericString,
        41 => Syntax::PostalAddress,
        44 => Syntax::PrintableString,
        45 => Syntax::SubtreeSpecification,
        50 => Syntax::TelephoneNumber,
        52 => Syntax::TelexNumber,
        1..=3 | 13 | 16 | 17 | 19..=21 | 23 | 25 | 29..=33 | 35 | 37 | 42 | 43 | 51 | 54..=58 => {
            Syntax::Unchecked
        }
        _ => return None,
    })
}

fn elsewhere(oid: &str) -> Option<Syntax> {
    Some(match oid {
        "1.3.6.1.1.1.0.0" => Syntax::NisNetgroupTriple,
        "1.3.6.1.1.1.0.1" => Syntax::BootParameter,
        "1.3.6.1.1.16.1" => Syntax::Uuid,
        "1.3.6.1.4.1.4203.666.11.2.1" => Syntax::Csn,
        "1.3.6.1.4.1.4203.666.11.2.4" => Syntax::CsnSid,
        "1.3.6.1.4.1.4203.1.1.1" => Syntax::Void,
        "1.2.840.113549.1.8.1.1" => Syntax::PrivateKey,
        // Assertions about certificates.
        "1.3.6.1.1.15.2" | "1.3.6.1.1.15.3" | "1.3.6.1.1.15.4" | "1.3.6.1.1.15.6"
        | "1.3.6.1.1.15.7" => Syntax::Unchecked,
        _ => return None,
    })
}
