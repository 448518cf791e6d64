//! LDAP result codes (RFC 4511, 4.1.9 and A.2), and what they mean for a load.

pub const OTHER_DATABASE: i32 = 71; // affectsMultipleDSAs
pub const NO_SUCH_OBJECT: i32 = 32;
pub const EXISTS: i32 = 68;

const NAMES: [(i32, &str); 32] = [
    (1, "operationsError"),
    (2, "protocolError"),
    (3, "timeLimitExceeded"),
    (4, "sizeLimitExceeded"),
    (7, "authMethodNotSupported"),
    (8, "strongerAuthRequired"),
    (10, "referral"),
    (11, "adminLimitExceeded"),
    (12, "unavailableCriticalExtension"),
    (13, "confidentialityRequired"),
    (16, "noSuchAttribute"),
    (17, "undefinedAttributeType"),
    (18, "inappropriateMatching"),
    (19, "constraintViolation"),
    (20, "attributeOrValueExists"),
    (21, "invalidAttributeSyntax"),
    (NO_SUCH_OBJECT, "noSuchObject"),
    (33, "aliasProblem"),
    (34, "invalidDNSyntax"),
    (48, "inappropriateAuthentication"),
    (50, "insufficientAccessRights"),
    (51, "busy"),
    (52, "unavailable"),
    (53, "unwillingToPerform"),
    (64, "namingViolation"),
    (65, "objectClassViolation"),
    (66, "notAllowedOnNonLeaf"),
    (67, "notAllowedOnRDN"),
    (EXISTS, "entryAlreadyExists"),
    (69, "objectClassModsProhibited"),
    (OTHER_DATABASE, "affectsMultipleDSAs"),
    (80, "other"),
];

/// Whether the server is busy or unavailable: another attempt may succeed.
pub const fn is_transient(code: i32) -> bool {
    matches!(code, 51 | 52)
}

/// Whether the code can mean that the database does not support transactions, although the root DSE announces them.
pub const fn is_no_transaction(code: i32) -> bool {
    matches!(code, 2 | 12 | 53)
}

/// Returns the reason for the reject file: the name and the number of the code, and the server's message.
pub fn reason(code: i32, text: &str) -> String {
    let name = NAMES.iter().find(|(known, _)| *known == code);
    let name = name.map_or_else(|| format!("result {code}"), |(_, name)| format!("{name} ({code})"));
    if text.is_empty() { name } else { format!("{name}: {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_name_and_the_code() {
        assert_eq!(reason(68, ""), "entryAlreadyExists (68)");
        assert_eq!(reason(65, "no sn"), "objectClassViolation (65): no sn");
        assert_eq!(reason(4711, ""), "result 4711");
    }
}
