//! The path to a place, and the accesses that it allows.

use crate::function::Function;
use crate::module::Module;
use crate::statement::{Place, Projection, Root};
use crate::types::{Space, Type};

use super::{Checked, demand};

/// The type of a place.
#[derive(Clone, Debug)]
pub(crate) struct PlaceType {
    /// The type of its value; a slice's or shared array's whole is a slice.
    pub(crate) held: Type,
    /// The memory that it is in.
    pub(crate) space: Space,
    /// True if it may be written.
    pub(crate) mutable: bool,
}

/// Finds the type of a place; the values and variables in it have been found to exist.
pub(crate) fn place_type(
    module: &Module,
    function: &Function,
    place: &Place,
) -> Checked<PlaceType> {
    let mut at = match place.root {
        Root::Local(local) => PlaceType {
            held: function
                .locals
                .get(local.0 as usize)
                .ok_or_else(|| format!("there is no variable {}", local.0))?
                .local_type
                .clone(),
            space: Space::Private,
            mutable: true,
        },
        Root::Slice(value) => {
            let held = function.values[value.0 as usize].value_type.clone();
            let Type::Slice { space, mutable, .. } = held else {
                return Err(format!(
                    "a place starts at a value of type `{}`, which is not a slice",
                    module.describe(&held)
                ));
            };
            PlaceType {
                held,
                space,
                mutable,
            }
        }
        Root::Shared(shared) => {
            let array = module
                .shared
                .get(shared.0 as usize)
                .ok_or_else(|| format!("there is no block-shared array {}", shared.0))?;
            PlaceType {
                held: Type::Slice {
                    element: Box::new(array.element.clone()),
                    space: Space::Shared,
                    mutable: true,
                },
                space: Space::Shared,
                mutable: true,
            }
        }
        Root::Constant(constant) => PlaceType {
            held: module
                .constants
                .get(constant.0 as usize)
                .ok_or_else(|| format!("there is no constant {}", constant.0))?
                .constant_type
                .clone(),
            space: Space::Private,
            mutable: false,
        },
    };
    let in_local = matches!(place.root, Root::Local(_));
    for (step, projection) in place.path.iter().enumerate() {
        at.held = match (projection, at.held) {
            (Projection::Field(field), Type::Struct(id)) => {
                let structure = module
                    .structs
                    .get(id.0 as usize)
                    .ok_or_else(|| format!("there is no struct {}", id.0))?;
                structure
                    .fields
                    .get(*field as usize)
                    .ok_or_else(|| format!("the struct `{}` has no field {field}", structure.name))?
                    .field_type
                    .clone()
            }
            (Projection::Field(field), other) => {
                return Err(format!(
                    "field {field} of a `{}`, which is not a struct",
                    module.describe(&other)
                ));
            }
            (Projection::Index { index, .. }, held) => {
                let index = &function.values[index.0 as usize].value_type;
                demand!(
                    index.scalar().is_some_and(|scalar| scalar.is_integer()),
                    "an index of type `{}`, which is not an integer",
                    module.describe(index)
                );
                match held {
                    Type::Array(element, _) => *element,
                    // A variable that holds a slice has to be loaded first.
                    Type::Slice { element, .. } if step == 0 && !in_local => *element,
                    other => {
                        return Err(format!("an element of a `{}`", module.describe(&other)));
                    }
                }
            }
        };
    }
    Ok(at)
}
