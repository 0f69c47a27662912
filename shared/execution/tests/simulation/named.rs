//! Enumerations whose variants have names, for counts and output.

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $name { $($variant,)* }
        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
pub(crate) use named;
