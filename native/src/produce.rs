//! The body of a batch that is to be sent; the twin of `lay_out_entries` in `kernel/python/batches.py`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::sends::PROPERTIES_BYTES_MAX;

const ENTRIES_MAX: usize = 262_144;
const ENTRY_BYTES_MIN: usize = 22;
const UNIQUE_ID_START: &[u8] = b"UNIQ_KEY\x01";

/// The properties behind the unique id; nothing where the tags are no text.
fn tail_of(tags: &Bound<'_, PyAny>, instance: &str, waits: bool) -> Option<Vec<u8>> {
    let mut tail = Vec::with_capacity(64);
    tail.extend_from_slice(if waits { b"\x02WAIT\x01true\x02" } else { b"\x02WAIT\x01false\x02" });
    if !tags.is_none() {
        let text = tags.cast::<PyString>().ok()?;
        tail.extend_from_slice(b"TAGS\x01");
        tail.extend_from_slice(text.to_str().ok()?.as_bytes());
        tail.push(2);
    }
    if !instance.is_empty() {
        tail.extend_from_slice(b"INSTANCE_ID\x01");
        tail.extend_from_slice(instance.as_bytes());
        tail.push(2);
    }
    Some(tail)
}

/// Whether a message has only a body, tags and a flag, and the topic and wish of the first.
fn is_plain(
    message: &Bound<'_, PyAny>,
    topic: &Bound<'_, PyAny>,
    waits: bool,
) -> PyResult<bool> {
    let py = message.py();
    let own = message.getattr(intern!(py, "topic"))?;
    Ok((own.is(topic) || own.eq(topic)?)
        && !message.getattr(intern!(py, "keys"))?.is_truthy()?
        && !message.getattr(intern!(py, "properties"))?.is_truthy()?
        && message.getattr(intern!(py, "wait_stored"))?.is_truthy()? == waits
        && !message.getattr(intern!(py, "delay_level"))?.is_truthy()?
        && message.getattr(intern!(py, "delay_ms"))?.is_none()
        && message.getattr(intern!(py, "deliver_at_ms"))?.is_none())
}

/// The body of one batch with all these messages; None where they are not plain.
#[pyfunction]
pub fn lay_out_entries<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyList>,
    unique_ids: &Bound<'py, PyList>,
    instance_id: &Bound<'py, PyString>,
    body_bytes_max: usize,
    batch_bytes_max: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let count = messages.len();
    if count == 0 || count != unique_ids.len() || count > ENTRIES_MAX {
        return Ok(None);
    }
    let Ok(instance) = instance_id.to_str() else { return Ok(None) };
    let first = messages.get_item(0)?;
    let topic = first.getattr(intern!(py, "topic"))?;
    let waits = first.getattr(intern!(py, "wait_stored"))?.is_truthy()?;
    let mut tags = first.getattr(intern!(py, "tags"))?;
    let Some(mut tail) = tail_of(&tags, instance, waits) else { return Ok(None) };
    let mut octets: Vec<u8> = Vec::new();
    for (message, unique_id) in messages.iter().zip(unique_ids.iter()) {
        if !is_plain(&message, &topic, waits)? {
            return Ok(None);
        }
        let own_tags = message.getattr(intern!(py, "tags"))?;
        if !own_tags.is(&tags) {
            let Some(other) = tail_of(&own_tags, instance, waits) else { return Ok(None) };
            (tags, tail) = (own_tags, other);
        }
        let body = message.getattr(intern!(py, "body"))?;
        let body = body.cast::<PyBytes>()?.as_bytes();
        let flag: i32 = message.getattr(intern!(py, "flag"))?.extract()?;
        let Ok(id) = unique_id.cast::<PyString>()?.to_str() else { return Ok(None) };
        let properties_bytes = UNIQUE_ID_START.len() + id.len() + tail.len();
        let size_bytes = ENTRY_BYTES_MIN + body.len() + properties_bytes;
        if body.len() > body_bytes_max
            || properties_bytes > PROPERTIES_BYTES_MAX as usize
            || octets.len() + size_bytes > batch_bytes_max
        {
            return Ok(None);
        }
        if octets.is_empty() {
            octets.reserve(batch_bytes_max.min(size_bytes * count));
        }
        octets.extend_from_slice(&(size_bytes as i32).to_be_bytes());
        octets.extend_from_slice(&[0; 8]);
        octets.extend_from_slice(&flag.to_be_bytes());
        octets.extend_from_slice(&(body.len() as i32).to_be_bytes());
        octets.extend_from_slice(body);
        octets.extend_from_slice(&(properties_bytes as i16).to_be_bytes());
        octets.extend_from_slice(UNIQUE_ID_START);
        octets.extend_from_slice(id.as_bytes());
        octets.extend_from_slice(&tail);
    }
    Ok(Some(PyBytes::new(py, &octets)))
}
