//! Options of the attributes.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Path, Result, Token, parse_quote};

use crate::refuse;

/// The options in parentheses behind an attribute's name.
pub(crate) struct Options {
    /// `crate = path`: where the kernel language is, for a crate that does not use it through
    /// `quipu`.
    pub(crate) krate: Path,
    /// The bounds of a kernel's blocks: names and values.
    bounds: Vec<(Ident, Expr)>,
}

/// The names of the bounds of a kernel's blocks.
const BOUNDS: [&str; 3] = ["block_threads", "max_block_threads", "min_blocks"];

impl Default for Options {
    fn default() -> Self {
        Self {
            krate: parse_quote!(::quipu),
            bounds: Vec::new(),
        }
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                options.krate = input.call(Path::parse_mod_style)?;
            } else {
                let name = Ident::parse(input).map_err(|_| input.error(refuse::OPTION))?;
                if !BOUNDS.iter().any(|known| name == known) {
                    return Err(Error::new(name.span(), refuse::OPTION));
                }
                if options.bounds.iter().any(|(known, _)| *known == name) {
                    return Err(Error::new(name.span(), refuse::OPTION_TWICE));
                }
                input.parse::<Token![=]>()?;
                options.bounds.push((name, input.parse()?));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if let Some((name, _)) = options.bound("min_blocks")
            && options.bounds.len() == 1
        {
            return Err(Error::new(name.span(), refuse::MIN_BLOCKS));
        }
        Ok(options)
    }
}

impl Options {
    /// Themselves, if nothing is said of blocks.
    pub(crate) fn without_bounds(self) -> Result<Self> {
        match self.bounds.first() {
            Some((name, _)) => Err(Error::new(name.span(), refuse::BOUNDS_OF_KERNELS)),
            None => Ok(self),
        }
    }

    fn bound(&self, name: &str) -> Option<&(Ident, Expr)> {
        self.bounds.iter().find(|(known, _)| known == name)
    }

    /// The bounds of a kernel's launches, as a `LaunchBounds`; none if there are none. A kernel
    /// that asks for its place in the grid has one element for each thread.
    pub(crate) fn launch_bounds(
        &self,
        asks_for_place: bool,
        is_of_grid: bool,
    ) -> Option<TokenStream> {
        let krate = &self.krate;
        let place =
            asks_for_place.then(|| quote!(one_element_each: true, is_of_grid: #is_of_grid,));
        let fields = self.bounds.iter().map(|(name, value)| {
            let value = match value {
                // One number is a block of one dimension.
                value if name == "block_threads" && !matches!(value, Expr::Array(_)) => {
                    quote_spanned!(value.span()=> [#value])
                }
                value => quote!(#value),
            };
            quote_spanned!(value.span()=> #name: ::core::option::Option::Some(#value))
        });
        (asks_for_place || !self.bounds.is_empty()).then(|| {
            quote!(#krate::__macro::LaunchBounds { #(#fields,)* #place ..#krate::__macro::LaunchBounds::NONE })
        })
    }
}

/// The options of an attribute of kernels.
pub(crate) fn of_kernel(tokens: proc_macro::TokenStream) -> Result<Options> {
    syn::parse2(TokenStream::from(tokens))
}

/// The options of an attribute of anything else.
pub(crate) fn of_others(tokens: proc_macro::TokenStream) -> Result<Options> {
    of_kernel(tokens)?.without_bounds()
}
