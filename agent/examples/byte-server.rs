//! A bucket in memory that speaks as much of S3 as the agent and `aws s3 cp` need, so fast that the measurement of them is not one of it.
//!
//! Started by `integration/bench/byte_server.py`. It says its address in a line of JSON, and ends when its standard input does. What it
//! was not made for it refuses, and `/_bench/told` says so; `/_bench/forget` empties it. It needs nothing but the standard library,
//! so that `rustc` alone compiles it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As S3 does (Amazon S3 API reference, "`ListObjectsV2`").
const KEYS_A_PAGE: usize = 1_000;

/// Of every object: nothing that is measured looks at it.
const WRITTEN_AT: (&str, &str) = ("Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:00.000Z");

/// Larger reads go past the buffer.
const BUFFER_BYTES: usize = 16 * 1024;

type Shared = Arc<Mutex<Bucket>>;

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Arc<Object>>,
    uploads: HashMap<String, BTreeMap<u32, Arc<Vec<u8>>>>,
    named: u64,
    calls: BTreeMap<&'static str, u64>,
    refused: Vec<String>,
}

struct Object {
    parts: Vec<Arc<Vec<u8>>>,
    etag: String,
}

struct Request {
    method: String,
    key: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// What is answered; `sent` is how much of the body, whose `length` a `HEAD` only says.
struct Answer {
    status: &'static str,
    headers: String,
    pieces: Vec<(Arc<Vec<u8>>, usize, usize)>,
    length: usize,
}

impl Object {
    fn length(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Where these bytes are, from `start` on.
    fn pieces(&self, start: usize, length: usize) -> Vec<(Arc<Vec<u8>>, usize, usize)> {
        let (mut at, end) = (0, start + length);
        let mut pieces = Vec::new();
        for part in &self.parts {
            let (from, to) = (start.max(at), end.min(at + part.len()));
            if from < to {
                pieces.push((Arc::clone(part), from - at, to - at));
            }
            at += part.len();
        }
        pieces
    }
}

impl Answer {
    fn empty(status: &'static str) -> Self {
        Self { status, headers: String::new(), pieces: Vec::new(), length: 0 }
    }

    fn text(status: &'static str, text: String) -> Self {
        let length = text.len();
        let headers = "Content-Type: application/xml\r\n".to_owned();
        Self { status, headers, pieces: vec![(Arc::new(text.into_bytes()), 0, length)], length }
    }

    fn error(status: &'static str, code: &str) -> Self {
        Self::text(status, format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"))
    }

    fn with_etag(mut self, etag: &str) -> Self {
        let _ = write!(self.headers, "ETag: \"{etag}\"\r\nLast-Modified: {}\r\n", WRITTEN_AT.0);
        self
    }
}

impl Bucket {
    fn answer(&mut self, request: Request) -> Answer {
        let (call, answer) = match (request.method.as_str(), request.key.is_empty()) {
            ("GET" | "PUT", false) if request.key.starts_with("meta-data/") || request.key.starts_with("api/") => {
                ("metadata", metadata(&request))
            }
            ("GET", true) => ("list", self.list(&request)),
            ("GET" | "HEAD", false) => ("get", self.get(&request)),
            ("PUT", false) if request.query.contains_key("partNumber") => ("put-part", self.put_part(request)),
            ("PUT", false) => ("put", self.put(request)),
            ("POST", true) if request.query.contains_key("delete") => ("delete-all", self.delete_all(&request)),
            ("POST", false) if request.query.contains_key("uploads") => ("begin-upload", self.begin(&request)),
            ("POST", false) if request.query.contains_key("uploadId") => ("complete-upload", self.complete(&request)),
            ("DELETE", false) => ("delete", self.delete(&request)),
            _ => ("refused", self.refuse(&request, "is not spoken")),
        };
        *self.calls.entry(call).or_default() += 1;
        answer
    }

    fn refuse(&mut self, request: &Request, why: &str) -> Answer {
        self.refused.push(format!("{} {} {why}", request.method, request.key));
        Answer::error("501 Not Implemented", "NotImplemented")
    }

    fn next_name(&mut self) -> String {
        self.named += 1;
        format!("{:032x}", self.named)
    }

    fn list(&self, request: &Request) -> Answer {
        let asked = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let (prefix, after) = (asked("prefix"), asked("continuation-token"));
        let found = self.objects.range(prefix.clone().max(after.clone())..);
        let mut found =
            found.filter(|(key, _)| **key != after).take_while(|(key, _)| key.starts_with(&prefix)).peekable();
        let (mut text, mut last, mut count) = (String::from("<ListBucketResult>"), "", 0);
        while count < KEYS_A_PAGE
            && let Some((key, object)) = found.next()
        {
            let written = format!("<LastModified>{}</LastModified>", WRITTEN_AT.1);
            let key_text = escaped(key);
            let about = format!("<ETag>&quot;{}&quot;</ETag><Size>{}</Size>", object.etag, object.length());
            let _ = write!(
                text,
                "<Contents><Key>{key_text}</Key>{written}{about}<StorageClass>STANDARD</StorageClass></Contents>"
            );
            (last, count) = (key, count + 1);
        }
        let more = found.peek().is_some();
        if more {
            let _ = write!(text, "<NextContinuationToken>{}</NextContinuationToken>", escaped(last));
        }
        let _ = write!(text, "<KeyCount>{count}</KeyCount><IsTruncated>{more}</IsTruncated></ListBucketResult>");
        Answer::text("200 OK", text)
    }

    fn get(&self, request: &Request) -> Answer {
        let Some(object) = self.objects.get(&request.key) else { return Answer::error("404 Not Found", "NoSuchKey") };
        let whole = object.length();
        let (status, start, length) = match request.headers.get("range").and_then(|range| read_range(range, whole)) {
            Some((start, _)) if start >= whole => {
                return Answer::error("416 Requested Range Not Satisfiable", "InvalidRange");
            }
            Some((start, length)) => ("206 Partial Content", start, length),
            None => ("200 OK", 0, whole),
        };
        let mut answer = Answer::empty(status).with_etag(&object.etag);
        if length < whole {
            let _ = write!(answer.headers, "Content-Range: bytes {start}-{}/{whole}\r\n", start + length - 1);
        }
        answer.pieces = if request.method == "HEAD" { Vec::new() } else { object.pieces(start, length) };
        Answer { length, ..answer }
    }

    fn put(&mut self, request: Request) -> Answer {
        if request.headers.get("content-encoding").is_some_and(|encoding| encoding.contains("aws-chunked")) {
            return self.refuse(&request, "is chunked");
        }
        let there = self.objects.get(&request.key).map(|object| format!("\"{}\"", object.etag));
        let lost = match (request.headers.get("if-match"), request.headers.get("if-none-match")) {
            (Some(wanted), _) => there.as_ref() != Some(wanted),
            (None, Some(_)) => there.is_some(),
            (None, None) => false,
        };
        if lost {
            return Answer::error("412 Precondition Failed", "PreconditionFailed");
        }
        self.keep(request.key, vec![Arc::new(request.body)])
    }

    fn keep(&mut self, key: String, parts: Vec<Arc<Vec<u8>>>) -> Answer {
        let etag = self.next_name();
        let answer = Answer::empty("200 OK").with_etag(&etag);
        self.objects.insert(key, Arc::new(Object { parts, etag }));
        answer
    }

    fn begin(&mut self, request: &Request) -> Answer {
        let upload = self.next_name();
        self.uploads.insert(upload.clone(), BTreeMap::new());
        let key = escaped(&request.key);
        let result = "InitiateMultipartUploadResult";
        Answer::text("200 OK", format!("<{result}><Key>{key}</Key><UploadId>{upload}</UploadId></{result}>"))
    }

    fn put_part(&mut self, request: Request) -> Answer {
        if request.headers.get("content-encoding").is_some_and(|encoding| encoding.contains("aws-chunked")) {
            return self.refuse(&request, "is chunked");
        }
        let number = request.query.get("partNumber").and_then(|number| number.parse().ok()).unwrap_or_default();
        let etag = self.next_name();
        let upload = request.query.get("uploadId").and_then(|upload| self.uploads.get_mut(upload));
        let Some(upload) = upload else { return Answer::error("404 Not Found", "NoSuchUpload") };
        upload.insert(number, Arc::new(request.body));
        Answer::empty("200 OK").with_etag(&etag)
    }

    fn complete(&mut self, request: &Request) -> Answer {
        let upload = request.query.get("uploadId").and_then(|upload| self.uploads.remove(upload));
        let Some(parts) = upload else { return Answer::error("404 Not Found", "NoSuchUpload") };
        let named = String::from_utf8_lossy(&request.body).matches("<PartNumber>").count();
        if named != parts.len() {
            return Answer::error("400 Bad Request", "InvalidPart");
        }
        self.keep(request.key.clone(), parts.into_values().collect());
        let result = "CompleteMultipartUploadResult";
        Answer::text("200 OK", format!("<{result}><Key>{}</Key><ETag>\"x\"</ETag></{result}>", escaped(&request.key)))
    }

    fn delete(&mut self, request: &Request) -> Answer {
        match request.query.get("uploadId") {
            Some(upload) => drop(self.uploads.remove(upload)),
            None => drop(self.objects.remove(&request.key)),
        }
        Answer::empty("204 No Content")
    }

    fn delete_all(&mut self, request: &Request) -> Answer {
        let text = String::from_utf8_lossy(&request.body);
        for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
            self.objects.remove(&unescaped(key));
        }
        Answer::text("200 OK", "<DeleteResult></DeleteResult>".to_owned())
    }

    /// For the one who measures.
    fn told(&self) -> Answer {
        let calls: Vec<String> = self.calls.iter().map(|(call, count)| format!("\"{call}\": {count}")).collect();
        let refused: Vec<String> = self.refused.iter().map(|words| format!("{words:?}")).collect();
        let bytes: usize = self.objects.values().map(|object| object.length()).sum();
        let told = [calls.join(", "), bytes.to_string(), refused.join(", ")];
        Answer::text(
            "200 OK",
            format!("{{\"calls\": {{{}}}, \"bytes\": {}, \"refused\": [{}]}}", told[0], told[1], told[2]),
        )
    }
}

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{{\"address\": \"http://{}\"}}", listener.local_addr()?);
    std::thread::spawn(end_with_input);
    let bucket = Shared::default();
    for stream in listener.incoming() {
        let (stream, bucket) = (stream?, Arc::clone(&bucket));
        std::thread::spawn(move || serve(&stream, &bucket));
    }
    Ok(())
}

/// Whoever started it has ended, however that was.
#[expect(clippy::disallowed_methods, reason = "nobody waits for what it was doing")]
fn end_with_input() {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::process::exit(0);
}

fn locked(bucket: &Shared) -> MutexGuard<'_, Bucket> {
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection; one that breaks has nothing more to say.
fn serve(stream: &TcpStream, bucket: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, stream);
    while let Some(request) = read_request(&mut reader, stream)? {
        let about = request.method == "GET" && request.key.starts_with("_bench/");
        let answer = match request.key.as_str() {
            "_bench/told" if about => locked(bucket).told(),
            "_bench/forget" if about => {
                // What was held is let go of when nobody waits for it.
                let before = std::mem::take(&mut *locked(bucket));
                drop(before);
                Answer::text("200 OK", "{}".to_owned())
            }
            _ => locked(bucket).answer(request),
        };
        write_answer(stream, &answer)?;
    }
    Ok(())
}

fn write_answer(mut stream: &TcpStream, answer: &Answer) -> std::io::Result<()> {
    let length =
        if answer.status.starts_with("204") { String::new() } else { format!("Content-Length: {}\r\n", answer.length) };
    let head = format!("HTTP/1.1 {}\r\n{length}{}\r\n", answer.status, answer.headers);
    let small: usize = answer.pieces.iter().map(|(_, start, end)| end - start).sum();
    // One write for what is small: a packet for the head alone would wait for nothing.
    if small <= 64 * 1024 {
        let mut whole = head.into_bytes();
        answer.pieces.iter().for_each(|(part, start, end)| whole.extend_from_slice(&part[*start..*end]));
        return stream.write_all(&whole);
    }
    stream.write_all(head.as_bytes())?;
    answer.pieces.iter().try_for_each(|(part, start, end)| stream.write_all(&part[*start..*end]))
}

fn read_request(reader: &mut BufReader<&TcpStream>, mut stream: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.contains_key("expect") {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    let mut body = Vec::with_capacity(length);
    reader.take(length as u64).read_to_end(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (first, rest) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let key = if first == "_bench" { format!("{first}/{rest}") } else { decoded(rest) };
    let query = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = query.map(|(name, value)| (decoded(name), decoded(value))).collect();
    Ok(Some(Request { method, key, query, headers, body }))
}

/// Start and length of `bytes=5-9` or `bytes=5-`.
fn read_range(range: &str, whole: usize) -> Option<(usize, usize)> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let start: usize = start.parse().ok()?;
    let end = end.parse().map_or(whole, |end: usize| whole.min(end + 1));
    Some((start, end.saturating_sub(start)))
}

/// The instance metadata of a machine that nobody takes back: `/latest/` is as good as a bucket's name.
fn metadata(request: &Request) -> Answer {
    if request.method == "GET" {
        return Answer::empty("404 Not Found");
    }
    let mut answer = Answer::text("200 OK", "a-token".to_owned());
    answer.headers.push_str("X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 21600\r\n");
    answer
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, others @ ..] = rest {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &others[2..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
}
