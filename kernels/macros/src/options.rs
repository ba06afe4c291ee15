//! Options of the attributes.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{Path, Result, Token, parse_quote};

/// `crate = path`: where the kernel language is, for who does not use it through `quipu`.
pub(crate) struct Options {
    pub(crate) krate: Path,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            krate: parse_quote!(::quipu),
        }
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        if input.is_empty() {
            return Ok(options);
        }
        if !input.peek(Token![crate]) {
            return Err(input
                .error("the only option is `crate = path`, the path of quipu's kernel language"));
        }
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        options.krate = input.call(Path::parse_mod_style)?;
        input.parse::<Option<Token![,]>>()?;
        Ok(options)
    }
}

/// The options of an attribute.
pub(crate) fn parsed(tokens: proc_macro::TokenStream) -> Result<Options> {
    syn::parse2(TokenStream::from(tokens))
}
