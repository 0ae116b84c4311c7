//! Wants something that no host gives.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, reason = "generated code")]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package test:foreign;
            world w {
                import example:clock/now@1.0.0;
                export run: func() -> u64;
            }
            package example:clock@1.0.0 {
                interface now {
                    now: func() -> u64;
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
    fn run() -> u64 {
        bindings::example::clock::now::now()
    }
}
