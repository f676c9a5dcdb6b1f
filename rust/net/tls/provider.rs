//! The cryptography of TLS.
//!
//! It is ring's, which needs a C compiler only. With the feature `aws-lc` it is that of AWS-LC, which signs with an RSA
//! key in half of the time where the processor has AVX-512; it needs cmake, and a minute more of a processor to build.

#[cfg(feature = "aws-lc")]
pub use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, Ticketer, default_provider};
#[cfg(not(feature = "aws-lc"))]
pub use rustls::crypto::ring::{ALL_CIPHER_SUITES, Ticketer, default_provider};
