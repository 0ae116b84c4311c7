//! Wants to see the environment.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, reason = "generated code")]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package test:wasi;
            world w {
                import wasi:cli/environment@0.2.0;
                export run: func() -> u32;
            }
            package wasi:cli@0.2.0 {
                interface environment {
                    get-arguments: func() -> list<string>;
                }
            }
        ",
        generate_all,
    });
    use super::Component;
    export!(Component);
}

struct Component;

impl bindings::Guest for Component {
    fn run() -> u32 {
        u32::try_from(bindings::wasi::cli::environment::get_arguments().len()).unwrap_or(0)
    }
}
