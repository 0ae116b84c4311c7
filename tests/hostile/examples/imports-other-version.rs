//! Was built for a later version of the contract.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, reason = "generated code")]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package test:later;
            world w {
                import opgate:policy/log@0.9.0;
                export run: func();
            }
            package opgate:policy@0.9.0 {
                interface log {
                    log: func(message: string);
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
    fn run() {
        bindings::opgate::policy::log::log("hello");
    }
}
