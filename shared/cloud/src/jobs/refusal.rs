//! What a refused launch means.
