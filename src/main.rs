//! Parse, dispatch, exit code. A plain function: `run` makes its namespaces before any thread exists.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    sandbox_proxy::cli::main(std::env::args_os()).into()
}
