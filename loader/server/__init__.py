"""Access to OpenLDAP: connections (python-ldap), slapd's own tools, and slapd's configuration."""
