//! Which definition wins.
