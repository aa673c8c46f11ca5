//! X-Ray's trace header, with which SQS and Lambda identify a span in a trace.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

use crate::record::trace_part;

/// Parses a header. Returns `None` unless it names a span.
pub(super) fn read(header: &str) -> Option<SpanContext> {
    let (time, unique) = trace_part(header, "Root")?
        .strip_prefix("1-")?
        .split_once('-')?;
    let trace = [hex(time, 8)?, hex(unique, 24)?].concat();
    let span = hex(trace_part(header, "Parent")?, 16)?;
    let flags = match trace_part(header, "Sampled") {
        Some("1") => TraceFlags::SAMPLED,
        _ => TraceFlags::NOT_SAMPLED,
    };
    let trace = TraceId::from_hex(&trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

fn hex(text: &str, len: usize) -> Option<&str> {
    let is_hex = text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then_some(text)
}

#[cfg(feature = "sqs")]
pub(super) fn write(context: &SpanContext) -> String {
    let trace = context.trace_id().to_string();
    let (time, unique) = trace.split_at(8);
    let (span, sampled) = (context.span_id(), u8::from(context.is_sampled()));
    format!("Root=1-{time}-{unique};Parent={span};Sampled={sampled}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::read;

    const HEADER: &str =
        "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

    #[test]
    fn a_header_names_a_span_of_a_trace_whatever_else_it_says() {
        for header in [
            HEADER,
            "Sampled=1; Self=1-67891234-12456789abcdef012345678a; Parent=53995c3f42cd8ad8; Root=1-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759E988-BD862E3FE1BE46A994272793;Parent=53995c3f42cd8ad8;Sampled=0;Lineage=a87bd80c:1|68fd508a:5",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=?",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
        ] {
            let context = read(header).unwrap();
            let (trace, span) = (context.trace_id(), context.span_id());
            assert_eq!(trace.to_string(), "5759e988bd862e3fe1be46a994272793");
            assert_eq!(span.to_string(), "53995c3f42cd8ad8");
            let is_sampled = header.contains("Sampled=1");
            assert_eq!(context.is_sampled(), is_sampled, "{header}");
            assert!(context.is_remote());
        }
    }

    #[test]
    fn what_names_no_span_is_nothing() {
        for header in [
            "",
            ";=;",
            "Root=1-5759e988-bd862e3fe1be46a994272793",
            "Parent=53995c3f42cd8ad8;Sampled=1",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=;Sampled=1",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=0000000000000000",
            "Root=1-00000000-000000000000000000000000;Parent=53995c3f42cd8ad8",
            "Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-+759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a99427279é;Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a994272793-;Parent=53995c3f42cd8ad8",
            "Root=1-5759e98-8bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
        ] {
            assert_eq!(read(header), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_to_be_read(text in "(Root|Parent|Sampled|=|;|-|[0-9a-f]{8}|\\PC)*") {
            let _ = read(&text);
        }

        #[cfg(feature = "sqs")]
        #[test]
        fn what_is_written_is_read_again(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let header = format!(
                "Root=1-{:08x}-{:024x};Parent={span:016x};Sampled={}",
                trace >> 96, trace & (u128::MAX >> 32), u8::from(sampled),
            );
            let context = read(&header).unwrap();
            prop_assert_eq!(super::write(&context), header);
        }
    }
}
