//! Names that may appear in a template because they are public: password schemes, object classes, attributes, branches.

/// Schemes of hashed passwords (RFC 2307 and the modules of OpenLDAP).
const SCHEMES: &str = "\
    ARGON2 CLEARTEXT CRYPT MD5 PBKDF2 PBKDF2-SHA1 PBKDF2-SHA256 PBKDF2-SHA512 SASL \
    SCRAM-SHA-256 SHA SHA256 SHA384 SHA512 SMD5 SSHA SSHA256 SSHA384 SSHA512";

/// Attributes that servers generate. A template does not describe them, because `--operational` generates them.
const MADE_BY_SERVERS: &str = "\
    contextcsn createtimestamp creatorsname entrycsn entrydn entryuuid hassubordinates \
    modifiersname modifytimestamp numsubordinates structuralobjectclass subordinatecount \
    subschemasubentry";

/// Well-known structural object classes. A subclass comes before its superclass.
const STRUCTURAL: &str = "\
    inetOrgPerson organizationalPerson groupOfNames groupOfUniqueNames groupOfURLs \
    organizationalRole organizationalUnit device account document dNSDomain applicationProcess \
    applicationEntity person residentialPerson room documentSeries namedObject untypedObject \
    ipNetwork ipProtocol ipService nisNetgroup nisMap oncRpc automountMap automount sudoRole \
    domain locality organization country posixGroup nisObject";

/// Names of branches that reveal nothing about their owner.
const NEUTRAL: &str = "\
    accounts admins aliases applications apps automount clients computers configuration \
    contacts customers departments devices dns domains employees external groups hosts internal \
    kerberos locations machines mail members netgroups networks organizations partners people \
    persons policies printers protocols roles rpc servers services sites staff students \
    subscribers sudoers suppliers system teams units users";

/// Returns the scheme of a hashed password, and the text after it.
pub fn scheme(value: &str) -> Option<(&'static str, &str)> {
    let (name, hash) = value.strip_prefix('{')?.split_once('}')?;
    let scheme = SCHEMES.split(' ').find(|known| known.eq_ignore_ascii_case(name))?;
    Some((scheme, hash))
}

pub fn is_made_by_servers(attribute: &str) -> bool {
    MADE_BY_SERVERS.split(' ').any(|name| name == attribute)
}

pub fn is_neutral(branch: &str) -> bool {
    NEUTRAL.split(' ').any(|name| name == branch)
}

/// Whether the attribute contains X.509 certificates. Servers check their syntax.
pub fn is_certificate(attribute: &str) -> bool {
    matches!(base(attribute), "usercertificate" | "cacertificate")
}

/// Whether the attribute contains certificate revocation lists or certificate pairs: servers parse them, and ditseed
/// cannot generate them.
pub fn is_signed(attribute: &str) -> bool {
    let base = base(attribute);
    base.ends_with("revocationlist") || base == "crosscertificatepair"
}

fn base(attribute: &str) -> &str {
    attribute.split(';').next().unwrap_or_default()
}

/// Returns the name of the first class in `STRUCTURAL` that `classes` contains: as spelled there, and as in `classes`.
pub fn structural<'c>(classes: &[&'c str]) -> Option<(&'static str, &'c str)> {
    let find = |name: &'static str| Some((name, *classes.iter().find(|class| class.eq_ignore_ascii_case(name))?));
    STRUCTURAL.split(' ').find_map(find)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_names_are_recognized() {
        assert!(is_certificate("usercertificate;binary") && is_signed("certificaterevocationlist"));
        assert_eq!(scheme("{ssha}abc="), Some(("SSHA", "abc=")));
        assert!(scheme("{secret}abc").is_none() && scheme("plain").is_none());
        assert_eq!(structural(&["top", "PERSON", "inetorgperson"]), Some(("inetOrgPerson", "inetorgperson")));
    }
}
