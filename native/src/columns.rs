//! Records as the buffers of Arrow columns; the twin of `kernel/python/plain_columns.py`.
//!
//! Buffers are handed over as bytes that pyarrow wraps without a copy.  The Arrow C data interface
//! would save nothing more, and cannot be written without `unsafe`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::bytes::{i16_at, i32_at, i64_at, u32_at};
use crate::records::{
    BODY_LENGTH_AT, CRC_AT, CRC_MASK, HEAD_BYTES, MAGIC_V1, QUEUE_OFFSET_AT, RECORD_BYTES_MAX,
    RECORD_BYTES_MIN, SYS_FLAG_AT,
};

/// Packed bodies, IPv6 hosts and inner batches; see `model/sys_flag.py`.
const NOT_PLAIN: i32 = 1 | 1 << 4 | 1 << 5 | 1 << 6;

const SEPARATOR: u8 = 2;
const NAME_END: u8 = 1;

/// A record that has a row: its bytes from the head on, and where its parts are in them.
struct Row<'a> {
    octets: &'a [u8],
    queue_offset: i64,
    body_stop: usize,
    properties_at: usize,
}

type Part = (usize, usize);
type Laid<'py> = (Vec<usize>, Vec<Bound<'py, PyBytes>>, Vec<Spans<'py>>);
type Spans<'py> = (Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The record at the start of some bytes, if it is plain, whole and its body is what was stored.
fn plain_row<'a>(buffer: &'a [u8], verify_crc: bool, topic: &mut &'a [u8]) -> Option<Row<'a>> {
    if buffer.len() < RECORD_BYTES_MIN || u32_at(buffer, 4) != MAGIC_V1 {
        return None;
    }
    let size = i64::from(i32_at(buffer, 0));
    let body_length = i64::from(i32_at(buffer, BODY_LENGTH_AT));
    let is_plain = i32_at(buffer, SYS_FLAG_AT) & NOT_PLAIN == 0;
    if !is_plain || body_length < 0 || size > RECORD_BYTES_MAX {
        return None;
    }
    if (HEAD_BYTES as i64) + body_length + 3 > size || size > buffer.len() as i64 {
        return None;
    }
    let octets = &buffer[..size as usize];
    let body_stop = HEAD_BYTES + body_length as usize;
    let topic_length = octets[body_stop] as usize;
    let topic_stop = body_stop + 1 + topic_length;
    if topic_length >= 128 || topic_stop + 2 > octets.len() {
        return None;
    }
    if i64::from(i16_at(octets, topic_stop)) != (octets.len() - topic_stop - 2) as i64 {
        return None;
    }
    let name = &octets[body_stop + 1..topic_stop];
    if name != *topic {
        std::str::from_utf8(name).ok()?;
        *topic = name;
    }
    let crc = u32_at(octets, CRC_AT);
    if verify_crc && crc != 0 {
        if crc != crc32fast::hash(&octets[HEAD_BYTES..body_stop]) & CRC_MASK {
            return None;
        }
    }
    let queue_offset = i64_at(octets, QUEUE_OFFSET_AT);
    Some(Row { octets, queue_offset, body_stop, properties_at: topic_stop + 2 })
}

/// Where a byte is in a piece, or its end.  Eight bytes are looked at together.
fn find(octets: &[u8], mut at: usize, wanted: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let pattern = ONES * u64::from(wanted);
    while at + 8 <= octets.len() {
        let eight = u64::from_le_bytes(octets[at..at + 8].try_into().unwrap()) ^ pattern;
        let zeros = eight.wrapping_sub(ONES) & !eight & TOPS;
        if zeros != 0 {
            return at + zeros.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < octets.len() && octets[at] != wanted {
        at += 1;
    }
    at
}

/// The values of some names in a property string; of equal names the last one with a value counts.
fn find_values(octets: &[u8], start: usize, names: &[Vec<u8>], found: &mut [Option<Part>]) {
    let mut at = start;
    while at < octets.len() {
        let stop = find(octets, at, SEPARATOR);
        let piece = &octets[at..stop];
        for (name, place) in names.iter().zip(found.iter_mut()) {
            let wide = name.len();
            if piece.len() > wide + 1 && piece[wide] == NAME_END && piece.starts_with(name) {
                *place = Some((at + wide + 1, stop));
            }
        }
        at = stop + 1;
    }
}

/// All rows of some pages, and how many each page has; None where a record is not plain.
fn rows_of<'a>(
    pages: &'a [(Bound<'_, PyBytes>, i64, i64, i64)],
    verify_crc: bool,
) -> Option<(Vec<Row<'a>>, Vec<usize>)> {
    let mut topic: &[u8] = &[];
    let mut counts = Vec::with_capacity(pages.len());
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (page, first, stop, delta) in pages {
        let octets = page.as_bytes();
        let before = rows.len();
        let mut at = 0;
        while at < octets.len() {
            let mut row = plain_row(&octets[at..], verify_crc, &mut topic)?;
            at += row.octets.len();
            if *first <= row.queue_offset && row.queue_offset < *stop {
                row.queue_offset = row.queue_offset.wrapping_add(*delta);
                rows.push(row);
            }
        }
        counts.push(rows.len() - before);
    }
    Some((rows, counts))
}

fn number_buffer<'py>(
    py: Python<'py>,
    rows: &[Row<'_>],
    at: usize,
    width: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, rows.len() * width, |made| {
        for (row, place) in rows.iter().zip(made.chunks_exact_mut(width)) {
            if at == QUEUE_OFFSET_AT {
                place.copy_from_slice(&row.queue_offset.to_le_bytes());
            } else {
                place.copy_from_slice(&row.octets[at..at + width]);
                place.reverse();
            }
        }
        Ok(())
    })
}

/// Validity, offsets and values of a column whose values are parts of the rows.
fn part_buffers<'py>(
    py: Python<'py>,
    rows: &[Row<'_>],
    part_of: impl Fn(usize, &Row<'_>) -> Option<Part>,
) -> PyResult<Option<Spans<'py>>> {
    let mut total: usize = 0;
    let mut nulls = false;
    let offsets = PyBytes::new_with(py, (rows.len() + 1) * 4, |made| {
        for (number, (row, place)) in rows.iter().zip(made[4..].chunks_exact_mut(4)).enumerate() {
            match part_of(number, row) {
                Some((start, stop)) => total += stop - start,
                None => nulls = true,
            }
            place.copy_from_slice(&(total as u32).to_le_bytes());
        }
        Ok(())
    })?;
    if total > i32::MAX as usize {
        return Ok(None);
    }
    let values = PyBytes::new_with(py, total, |mut made| {
        for (number, row) in rows.iter().enumerate() {
            if let Some((start, stop)) = part_of(number, row) {
                let (place, rest) = made.split_at_mut(stop - start);
                place.copy_from_slice(&row.octets[start..stop]);
                made = rest;
            }
        }
        Ok(())
    })?;
    if !nulls {
        return Ok(Some((None, offsets, values)));
    }
    let validity = PyBytes::new_with(py, rows.len().div_ceil(8), |made| {
        for (number, row) in rows.iter().enumerate() {
            if part_of(number, row).is_some() {
                made[number / 8] |= 1 << (number % 8);
            }
        }
        Ok(())
    })?;
    Ok(Some((Some(validity), offsets, values)))
}

/// The buffers of the columns of some pages; None where a record is not plain.
///
/// `wishes` are the fields that are numbers, the names of properties, whether bodies and whole
/// property strings are wanted, and whether checksums count.
#[pyfunction]
pub fn lay_out_columns<'py>(
    py: Python<'py>,
    pages: &Bound<'py, PyList>,
    wishes: &Bound<'py, PyTuple>,
) -> PyResult<Option<Laid<'py>>> {
    let pages: Vec<(Bound<'py, PyBytes>, i64, i64, i64)> = pages.extract()?;
    let numbers: Vec<(usize, usize)> = wishes.get_item(0)?.extract()?;
    let names: Vec<Vec<u8>> = wishes.get_item(1)?.extract()?;
    let (body, strings, verify_crc): (bool, bool, bool) = (
        wishes.get_item(2)?.extract()?,
        wishes.get_item(3)?.extract()?,
        wishes.get_item(4)?.extract()?,
    );
    let Some((rows, counts)) = rows_of(&pages, verify_crc) else { return Ok(None) };
    let mut fixed = Vec::with_capacity(numbers.len());
    for (at, width) in numbers {
        fixed.push(number_buffer(py, &rows, at, width)?);
    }
    let mut found: Vec<Option<Part>> = vec![None; rows.len() * names.len()];
    if !names.is_empty() {
        for (row, places) in rows.iter().zip(found.chunks_exact_mut(names.len())) {
            find_values(row.octets, row.properties_at, &names, places);
        }
    }
    let mut parts = Vec::with_capacity(names.len() + 2);
    for number in 0..names.len() {
        parts.push(part_buffers(py, &rows, |row, _| found[row * names.len() + number])?);
    }
    if body {
        parts.push(part_buffers(py, &rows, |_, row| Some((HEAD_BYTES, row.body_stop)))?);
    }
    if strings {
        parts.push(part_buffers(py, &rows, |_, row| {
            Some((row.properties_at, row.octets.len()))
        })?);
    }
    let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(Some((counts, fixed, parts)))
}
