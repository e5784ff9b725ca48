//! Fuzz targets bodies.
