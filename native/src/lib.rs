//! The compiled kernel of FlintMQ: hot loops over bytes.
//!
//! Every function here has a twin of the same name in `flintmq.kernel.python`, which is its
//! specification: the same arguments, the same values, errors and bytes.  A function changes
//! nothing but what it returns, so that a call which panicked can be made again in Python.

#![deny(unsafe_code)]

mod batches;
mod bytes;
mod columns;
mod frames;
mod hashes;
mod pulls;
mod produce;
mod records;
mod sends;

use pyo3::panic::PanicException;
use pyo3::prelude::*;

/// The version of the functions between both languages; `flintmq.kernel.choice` has the same.
const FACE: u32 = 3;

/// For the test of what happens then.
#[pyfunction]
fn panic_now(reason: &str) -> PyResult<()> {
    panic!("{reason}");
}

#[pymodule]
fn flintmq_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FACE", FACE)?;
    module.add("PanicException", module.py().get_type::<PanicException>())?;
    module.add_function(wrap_pyfunction!(panic_now, module)?)?;
    module.add_function(wrap_pyfunction!(columns::lay_out_columns, module)?)?;
    module.add_function(wrap_pyfunction!(frames::cut_frames, module)?)?;
    module.add_function(wrap_pyfunction!(hashes::hash_keys, module)?)?;
    module.add_function(wrap_pyfunction!(pulls::find_records, module)?)?;
    module.add_function(wrap_pyfunction!(produce::lay_out_entries, module)?)?;
    module.add_function(wrap_pyfunction!(records::read_plain, module)?)?;
    module.add_function(wrap_pyfunction!(sends::lay_out_sends, module)?)?;
    Ok(())
}
