//! Base64 (RFC 4648, section 4).

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// MIME allows 76 letters a line (RFC 2045, section 6.8).
const LINE_BYTES: usize = 57;

/// Bytes in base64, on one line.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Encodes bytes in base64 in lines, each with its end.
pub(super) fn lines(bytes: &[u8]) -> String {
    bytes.chunks(LINE_BYTES).map(|line| encode(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_come_out() {
        let expect = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expect) in expect.iter().enumerate() {
            assert_eq!(encode(&b"foobar"[..length]), *expect);
        }
        assert_eq!(encode(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn a_line_has_76_letters_at_most() {
        let text = lines(&[b'x'; 58]);
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [76, 4]);
        assert_eq!(text.replace('\n', ""), encode(&[b'x'; 58]));
    }
}
