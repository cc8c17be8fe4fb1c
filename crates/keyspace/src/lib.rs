//! The waist: databases of typed values over the store.
