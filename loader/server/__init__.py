"""The door to OpenLDAP: connections (python-ldap), slapd's own tools, and its configuration."""
