"""What a release of Curfew consists of, and how each part is built. `make release` runs it."""
