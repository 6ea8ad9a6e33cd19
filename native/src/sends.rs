//! Sends like the ones before; the twin of `kernel/python/sends.py`.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::batches::{write_ids, Alike, Batch, BatchForm, Limits};
use crate::records::CRC_MASK;

const TIME_DIGITS: usize = 13;
const DIGITS_MAX: usize = 9;
pub const PROPERTIES_BYTES_MAX: usize = 32_767;

/// A `SendForm`, as it came.
struct Form<'py> {
    head: Bound<'py, PyBytes>,
    gap: Bound<'py, PyBytes>,
    middle: Bound<'py, PyBytes>,
    id_bytes: usize,
    rest: Bound<'py, PyBytes>,
    tail: Bound<'py, PyBytes>,
    fixed_bytes: usize,
    magic: Bound<'py, PyBytes>,
    flag: Bound<'py, PyBytes>,
    sys_flag: Bound<'py, PyBytes>,
    born_host: Bound<'py, PyBytes>,
    store_rest: Bound<'py, PyBytes>,
    topic_field: Bound<'py, PyBytes>,
    before: Bound<'py, PyBytes>,
    after: Bound<'py, PyBytes>,
    tags_code: i64,
    keys: Vec<Bound<'py, PyAny>>,
    topic: Bound<'py, PyAny>,
    queues: i32,
    answer: Option<[Bound<'py, PyBytes>; 6]>,
    is_fifo: bool,
    batch: Option<BatchForm<'py>>,
    queues_at: HashMap<i32, usize>, // where they are among those that grow
    sizes_at: Option<usize>,
}

/// What differs between headers of one form.
struct Values<'a> {
    queue_id: i32,
    time: &'a [u8],
    unique_id: &'a [u8],
    opaque: &'a [u8],
}

pub fn octets_of<'py>(form: &Bound<'py, PyTuple>, at: usize) -> PyResult<Bound<'py, PyBytes>> {
    Ok(form.get_item(at)?.cast_into::<PyBytes>()?)
}

impl<'py> Form<'py> {
    fn new(form: &Bound<'py, PyTuple>) -> PyResult<Self> {
        let pieces = form.get_item(20)?;
        let answer = if pieces.is_none() {
            None
        } else {
            let pieces = pieces.cast_into::<PyTuple>()?;
            Some([
                octets_of(&pieces, 0)?,
                octets_of(&pieces, 1)?,
                octets_of(&pieces, 2)?,
                octets_of(&pieces, 3)?,
                octets_of(&pieces, 4)?,
                octets_of(&pieces, 5)?,
            ])
        };
        Ok(Form {
            head: octets_of(form, 0)?,
            gap: octets_of(form, 1)?,
            middle: octets_of(form, 2)?,
            id_bytes: form.get_item(3)?.extract()?,
            rest: octets_of(form, 4)?,
            tail: octets_of(form, 5)?,
            fixed_bytes: form.get_item(6)?.extract()?,
            magic: octets_of(form, 7)?,
            flag: octets_of(form, 8)?,
            sys_flag: octets_of(form, 9)?,
            born_host: octets_of(form, 10)?,
            store_rest: octets_of(form, 11)?,
            topic_field: octets_of(form, 12)?,
            before: octets_of(form, 13)?,
            after: octets_of(form, 14)?,
            tags_code: form.get_item(15)?.extract()?,
            keys: form.get_item(16)?.try_iter()?.collect::<PyResult<_>>()?,
            topic: form.get_item(17)?,
            queues: form.get_item(18)?.extract()?,
            is_fifo: form.get_item(19)?.extract()?,
            answer,
            batch: BatchForm::new(&form.get_item(21)?)?,
            queues_at: HashMap::new(),
            sizes_at: None,
        })
    }

    /// The values of a header with this head; nothing when the rest differs.
    fn values<'a>(&self, header: &'a [u8]) -> Option<Values<'a>> {
        let (middle, rest) = (self.middle.as_bytes(), self.rest.as_bytes());
        let left = &header[self.head.as_bytes().len()..];
        let (queue, left) = left.split_at(left.iter().position(|&octet| octet == b'"')?);
        let left = left.strip_prefix(self.gap.as_bytes())?;
        if !(is_number(queue) || queue == b"0") || queue.len() > DIGITS_MAX {
            return None;
        }
        let id_at = TIME_DIGITS + middle.len();
        let id_stop = id_at + self.id_bytes;
        let opaque_at = id_stop + rest.len();
        if left.len() <= opaque_at
            || &left[TIME_DIGITS..id_at] != middle
            || &left[id_stop..opaque_at] != rest
        {
            return None;
        }
        let (time, unique_id) = (&left[..TIME_DIGITS], &left[id_at..id_stop]);
        let left = &left[opaque_at..];
        let (opaque, left) = left.split_at(left.iter().position(|&octet| octet == b',')?);
        let queue_id = number(queue) as i32;
        let are_values = &left[1..] == self.tail.as_bytes()
            && queue_id < self.queues
            && is_number(time)
            && is_number(opaque)
            && opaque.len() <= DIGITS_MAX
            && !unique_id.is_empty()
            && unique_id.iter().all(u8::is_ascii_alphanumeric);
        are_values.then_some(Values { queue_id, time, unique_id, opaque })
    }

    /// Where a queue is among those that grow.
    fn queue_at(
        &mut self,
        py: Python<'py>,
        queues: &mut Vec<Queue<'py>>,
        growth_of: &Bound<'py, PyAny>,
        queue_id: i32,
    ) -> PyResult<usize> {
        if let Some(&place) = self.queues_at.get(&queue_id) {
            return Ok(place);
        }
        let place = queue_place(py, queues, growth_of, (&self.topic, queue_id))?;
        self.queues_at.insert(queue_id, place);
        Ok(place)
    }
}

/// Digits, of which the first is not zero.
fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text[0] != b'0' && text.iter().all(u8::is_ascii_digit)
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
}

/// What one queue gets.
struct Queue<'py> {
    growth: Bound<'py, PyAny>,
    stop: i64,
    units: Vec<u8>,
    codes: Bound<'py, PyList>,
}

/// Sizes of records of one topic.
struct Sizes<'py> {
    topic: Bound<'py, PyAny>,
    is_fifo: bool,
    sizes: Bound<'py, PyList>,
}

type Grown<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyBytes>, Bound<'py, PyList>)>;

#[pyfunction]
pub fn lay_out_sends<'py>(
    py: Python<'py>,
    frames: &Bound<'py, PyList>,
    start: usize,
    forms: &Bound<'py, PyDict>,
    growth_of: &Bound<'py, PyAny>,
    room: (usize, i64, i64, usize, usize, usize, i64, i64),
    laid_out: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (head_bytes, mut log_offset, log_stop, record_bytes_max, body_bytes_max, ..) = room;
    let (.., batch_bytes_max, turn_stop, now_ms) = room;
    let limits = Limits { record_bytes_max, batch_bytes_max, log_stop };
    let mut known: Vec<Form> = Vec::new();
    let mut queues: Vec<Queue> = Vec::new();
    let mut sizes: Vec<Sizes> = Vec::new();
    let mut records: Vec<u8> = Vec::new();
    let mut answer: Vec<u8> = Vec::new();
    let (keys, keyed, batches) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
    let (answers, opaques) = (PyList::empty(py), PyList::empty(py));
    let mut all_bytes = 0;
    let mut taken = 0;
    for at in start..frames.len() {
        let frame = frames.get_item(at)?.cast_into::<PyTuple>()?;
        let json: i64 = frame.get_borrowed_item(0)?.extract()?;
        let (header, body) = (octets_of(&frame, 1)?, octets_of(&frame, 2)?);
        let (header, body) = (header.as_bytes(), body.as_bytes());
        if json != 0 || body.is_empty() || body.len() > body_bytes_max {
            break;
        }
        let head = &header[..head_bytes.min(header.len())];
        if !known.iter().any(|form| form.head.as_bytes() == head) {
            let Some(found) = forms.get_item(PyBytes::new(py, head))? else { break };
            for form in found.cast::<PyTuple>()?.iter() {
                known.push(Form::new(form.cast::<PyTuple>()?)?);
            }
        }
        let mut candidates = known.iter_mut().filter(|form| form.head.as_bytes() == head);
        let Some((form, values)) =
            candidates.find_map(|form| form.values(header).map(|values| (form, values)))
        else {
            break;
        };
        let Values { queue_id, time, unique_id, opaque } = values;
        let (before, after) = (form.before.clone(), form.after.clone());
        let (before, after) = (before.as_bytes(), after.as_bytes());
        let properties_bytes = before.len() + unique_id.len() + after.len();
        let born_ms = number(time);
        if let Some(shared) = &form.batch {
            let fixed_bytes = form.fixed_bytes;
            let split =
                Batch::split(py, body, shared, fixed_bytes, properties_bytes, log_offset, &limits);
            let Some(batch) = split? else { break };
            if log_offset > turn_stop {
                break;
            }
            let queue_at = form.queue_at(py, &mut queues, growth_of, queue_id)?;
            let (shared, queue) = (form.batch.as_ref().unwrap(), &mut queues[queue_at]);
            let alike = Alike {
                fixed_bytes,
                magic: form.magic.as_bytes(),
                queue_id,
                middle: [
                    form.sys_flag.as_bytes(),
                    &born_ms.to_be_bytes(),
                    form.born_host.as_bytes(),
                    &now_ms.to_be_bytes(),
                    form.store_rest.as_bytes(),
                ]
                .concat(),
                topic_field: form.topic_field.as_bytes(),
                common: [before, unique_id, after].concat(),
            };
            let units_at = queue.units.len();
            batch.write(&mut records, &mut queue.units, &alike, log_offset, queue.stop);
            let units = &queue.units[units_at..];
            let code = batch.tags_code.into_pyobject(py)?;
            for _ in 0..batch.len() {
                queue.codes.append(&code)?;
            }
            batches.append((&form.topic, batch.len(), batch.total))?;
            keys.append(PyString::from_bytes(py, unique_id)?)?;
            for key in &batch.keys {
                keys.append(key)?;
            }
            let own = PyBytes::new(py, units);
            keyed.append((&form.topic, 1 + batch.keys.len(), own, now_ms))?;
            if let Some(pieces) = &form.answer {
                begin_answer(&mut answer, pieces);
                write_ids(&mut answer, shared, units);
                end_answer(&mut answer, pieces, (queue_id, queue.stop), unique_id, opaque);
                answers.append(PyBytes::new(py, &answer))?;
                opaques.append(PyBytes::new(py, opaque))?;
            }
            queue.stop += batch.len() as i64;
            log_offset += batch.total as i64;
            all_bytes += body.len();
            taken += 1;
            continue;
        }
        let size = form.fixed_bytes + body.len() + properties_bytes;
        if size > record_bytes_max
            || log_offset + size as i64 > log_stop
            || properties_bytes > PROPERTIES_BYTES_MAX
        {
            break;
        }
        let queue_at = form.queue_at(py, &mut queues, growth_of, queue_id)?;
        let sizes_at = match form.sizes_at {
            Some(place) => place,
            None => sizes_place(py, &mut sizes, &form.topic, form.is_fifo)?,
        };
        form.sizes_at = Some(sizes_at);
        let queue = &mut queues[queue_at];
        records.extend_from_slice(&(size as i32).to_be_bytes());
        records.extend_from_slice(form.magic.as_bytes());
        records.extend_from_slice(&(crc32fast::hash(body) & CRC_MASK).to_be_bytes());
        records.extend_from_slice(&queue_id.to_be_bytes());
        records.extend_from_slice(form.flag.as_bytes());
        records.extend_from_slice(&queue.stop.to_be_bytes());
        records.extend_from_slice(&log_offset.to_be_bytes());
        records.extend_from_slice(form.sys_flag.as_bytes());
        records.extend_from_slice(&born_ms.to_be_bytes());
        records.extend_from_slice(form.born_host.as_bytes());
        records.extend_from_slice(&now_ms.to_be_bytes());
        records.extend_from_slice(form.store_rest.as_bytes());
        records.extend_from_slice(&(body.len() as i32).to_be_bytes());
        records.extend_from_slice(body);
        records.extend_from_slice(form.topic_field.as_bytes());
        records.extend_from_slice(&(properties_bytes as i16).to_be_bytes());
        records.extend_from_slice(before);
        records.extend_from_slice(unique_id);
        records.extend_from_slice(after);
        queue.units.extend_from_slice(&log_offset.to_be_bytes());
        queue.units.extend_from_slice(&(size as i32).to_be_bytes());
        queue.units.extend_from_slice(&form.tags_code.to_be_bytes());
        queue.codes.append(form.tags_code)?;
        sizes[sizes_at].sizes.append(size)?;
        keys.append(PyString::from_bytes(py, unique_id)?)?;
        for key in &form.keys {
            keys.append(key)?;
        }
        keyed.append((&form.topic, 1 + form.keys.len(), log_offset, now_ms))?;
        if let Some(pieces) = &form.answer {
            begin_answer(&mut answer, pieces);
            write_hex(&mut answer, log_offset);
            end_answer(&mut answer, pieces, (queue_id, queue.stop), unique_id, opaque);
            answers.append(PyBytes::new(py, &answer))?;
            opaques.append(PyBytes::new(py, opaque))?;
        }
        queue.stop += 1;
        log_offset += size as i64;
        all_bytes += body.len();
        taken += 1;
    }
    let grown: Grown = queues
        .into_iter()
        .map(|queue| (queue.growth, PyBytes::new(py, &queue.units), queue.codes))
        .collect();
    let sizes: Vec<_> =
        sizes.into_iter().map(|each| (each.topic, each.is_fifo, each.sizes)).collect();
    laid_out.call1((
        taken,
        PyBytes::new(py, &records),
        grown,
        sizes,
        batches,
        keys,
        keyed,
        answers,
        opaques,
        all_bytes,
    ))
}

fn queue_place<'py>(
    py: Python<'py>,
    queues: &mut Vec<Queue<'py>>,
    growth_of: &Bound<'py, PyAny>,
    queue: (&Bound<'py, PyAny>, i32),
) -> PyResult<usize> {
    let growth = growth_of.call1((queue,))?;
    if let Some(place) = queues.iter().position(|each| each.growth.is(&growth)) {
        return Ok(place);
    }
    let stop = growth.getattr("stop")?.extract()?;
    queues.push(Queue { growth, stop, units: Vec::new(), codes: PyList::empty(py) });
    Ok(queues.len() - 1)
}

fn sizes_place<'py>(
    py: Python<'py>,
    sizes: &mut Vec<Sizes<'py>>,
    topic: &Bound<'py, PyAny>,
    is_fifo: bool,
) -> PyResult<usize> {
    for (place, each) in sizes.iter().enumerate() {
        if each.is_fifo == is_fifo && each.topic.eq(topic)? {
            return Ok(place);
        }
    }
    sizes.push(Sizes { topic: topic.clone(), is_fifo, sizes: PyList::empty(py) });
    Ok(sizes.len() - 1)
}

/// Sixteen digits, as in a message id.
pub fn write_hex(out: &mut Vec<u8>, log_offset: i64) {
    for shift in (0..16).rev() {
        out.push(b"0123456789ABCDEF"[(log_offset >> (shift * 4) & 15) as usize]);
    }
}

/// The frame that says where a message is, up to its place.
fn begin_answer(out: &mut Vec<u8>, pieces: &[Bound<'_, PyBytes>; 6]) {
    out.clear();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(pieces[0].as_bytes());
}

fn end_answer(
    out: &mut Vec<u8>,
    pieces: &[Bound<'_, PyBytes>; 6],
    (queue_id, queue_offset): (i32, i64),
    unique_id: &[u8],
    opaque: &[u8],
) {
    out.extend_from_slice(pieces[1].as_bytes());
    out.extend_from_slice(queue_id.to_string().as_bytes());
    out.extend_from_slice(pieces[2].as_bytes());
    out.extend_from_slice(queue_offset.to_string().as_bytes());
    out.extend_from_slice(pieces[3].as_bytes());
    out.extend_from_slice(unique_id);
    out.extend_from_slice(pieces[4].as_bytes());
    out.extend_from_slice(opaque);
    out.extend_from_slice(pieces[5].as_bytes());
    let header_bytes = (out.len() - 8) as u32;
    out[..4].copy_from_slice(&(header_bytes + 4).to_be_bytes());
    out[4..8].copy_from_slice(&header_bytes.to_be_bytes());
}
