//! Numbers on the command line: what is legal, with the largest.

use std::str::FromStr;

use model::fault::InvalidValue;

/// A whole number in this range.
pub(super) fn whole_number<T>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, InvalidValue> + Clone + Send + Sync + 'static
where
    T: FromStr + Copy + PartialOrd + std::fmt::Display + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| InvalidValue::new(format!("write a whole number from {least} to {most}")))
    }
}

/// A number up to `most`, which `is_legal` refuses or not. `what` says what to write.
pub(super) fn number(text: &str, most: f64, is_legal: impl Fn(f64) -> bool, what: &str) -> Result<f64, InvalidValue> {
    let number = text.trim().parse().ok().filter(|number| is_legal(*number) && *number <= most);
    number.ok_or_else(|| InvalidValue::new(format!("write {what}, {most} at most")))
}

/// A text that is not blank.
pub(super) fn words(text: &str) -> Result<String, InvalidValue> {
    if text.trim().is_empty() {
        Err(InvalidValue::new("it is empty; write it, or leave the option out"))
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_names_the_range() {
        let whole = whole_number(1_u32, 65_536);
        assert_eq!(whole("65536"), Ok(65_536));
        for text in ["0", "-1", "1.5", "65537", "", "8 GPUs", "99999999999"] {
            assert_eq!(whole(text).unwrap_err().to_string(), "write a whole number from 1 to 65536", "{text}");
        }
        let hours = |text| number(text, 24.0, |hours| hours > 0.0, "a number of hours");
        assert_eq!((hours("0.5"), hours("24")), (Ok(0.5), Ok(24.0)));
        for text in ["0", "-1", "24h", "25", "inf", "NaN", ""] {
            assert_eq!(hours(text).unwrap_err().to_string(), "write a number of hours, 24 at most", "{text}");
        }
        assert!(words(" \n").is_err() && words("python train.py").is_ok());
    }
}
