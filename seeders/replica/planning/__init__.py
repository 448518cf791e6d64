"""`replica plan`: what each strategy of `replica seed` takes, from what was measured, and which one to take."""
