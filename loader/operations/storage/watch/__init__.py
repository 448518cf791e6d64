"""`storage watch`: times reads of every layer below a database at the same pace, and tells which of them adds delay."""
