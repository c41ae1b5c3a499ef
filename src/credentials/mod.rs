//! x
pub mod header {
    #[derive(Debug)]
    pub struct Injector;
    pub struct InjectError { pub secret: String }
    impl Injector { pub fn apply(&self, _: &[usize], _: &mut http::HeaderMap) -> Result<(), InjectError> { Ok(()) } }
}
