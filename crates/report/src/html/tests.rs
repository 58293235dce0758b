//! Pages of made-up runs: the five answers on the first screen, absent views, hostile names.
