"""`storage migrate`: a service's directory moved to another volume, which is then mounted in its place."""
