//! Attribute names as OpenDJ's makeldif writes them: those of its core schema in their own spelling and by one of
//! their names, any other in lower case.

use std::borrow::Cow;

/// Attribute types that makeldif knows without a schema (RFC 4512, 4519, 4523, 4530, 5020, 3112, 3045), a name each;
/// other names of the same type behind it.
const KNOWN: &[&[&str]] = &[
    &["aliasedObjectName"],
    &["altServer"],
    &["attributeTypes"],
    &["authorityRevocationList"],
    &["authPassword"],
    &["businessCategory"],
    &["c", "countryName"],
    &["cACertificate"],
    &["certificateRevocationList"],
    &["cn", "commonName"],
    &["createTimestamp"],
    &["creatorsName"],
    &["crossCertificatePair"],
    &["dc", "domainComponent"],
    &["deltaRevocationList"],
    &["description"],
    &["destinationIndicator"],
    &["distinguishedName"],
    &["ditContentRules"],
    &["ditStructureRules"],
    &["dnQualifier"],
    &["enhancedSearchGuide"],
    &["entryDN"],
    &["entryUUID"],
    &["facsimileTelephoneNumber"],
    &["fullVendorVersion"],
    &["generationQualifier"],
    &["givenName"],
    &["governingStructureRule"],
    &["hasSubordinates"],
    &["houseIdentifier"],
    &["initials"],
    &["internationalISDNNumber"],
    &["l", "localityName"],
    &["ldapSyntaxes"],
    &["matchingRules"],
    &["matchingRuleUse"],
    &["member"],
    &["modifiersName"],
    &["modifyTimestamp"],
    &["name"],
    &["nameForms"],
    &["namingContexts"],
    &["numSubordinates"],
    &["o", "organizationName"],
    &["objectClass"],
    &["objectClasses"],
    &["ou", "organizationalUnitName"],
    &["owner"],
    &["physicalDeliveryOfficeName"],
    &["postalAddress"],
    &["postalCode"],
    &["postOfficeBox"],
    &["preferredDeliveryMethod"],
    &["registeredAddress"],
    &["roleOccupant"],
    &["searchGuide"],
    &["seeAlso"],
    &["serialNumber"],
    &["sn", "surname"],
    &["st", "stateOrProvinceName"],
    &["street", "streetAddress"],
    &["structuralObjectClass"],
    &["subschemaSubentry"],
    &["supportedAlgorithms"],
    &["supportedAuthPasswordSchemes"],
    &["supportedControl"],
    &["supportedExtension"],
    &["supportedFeatures"],
    &["supportedLDAPVersion"],
    &["supportedSASLMechanisms"],
    &["telephoneNumber"],
    &["teletexTerminalIdentifier"],
    &["telexNumber"],
    &["title"],
    &["uid", "userid"],
    &["uniqueMember"],
    &["userCertificate"],
    &["userPassword"],
    &["vendorName"],
    &["vendorVersion"],
    &["x121Address"],
    &["x500UniqueIdentifier"],
];

pub fn canonical(name: &str) -> Cow<'static, str> {
    let is_it = |known: &&&[&str]| known.iter().any(|one| one.eq_ignore_ascii_case(name));
    match KNOWN.iter().find(is_it) {
        Some(names) => Cow::Borrowed(names[0]),
        None => Cow::Owned(name.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_name() {
        let cases = [
            ("SURNAME", "sn"),
            ("givenname", "givenName"),
            ("employeeNumber", "employeenumber"),
            ("Description;lang-DE", "description;lang-de"),
        ];
        for (written, expected) in cases {
            assert_eq!(canonical(written), expected);
        }
    }
}
