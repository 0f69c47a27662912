//! The style of the page. Colours have a contrast of at least 4.5 to 1 on their background (WCAG 2.2, "Contrast (Minimum)").

/// Okabe and Ito's colours, darker in the light scheme: people who see few colours tell them apart.
pub(crate) const CSS: &str = "
:root { --page: #ffffff; --ink: #1a1d21; --muted: #565d66; --line: #d5d9de; --card: #f4f6f8; --alarm: #b3261e;
  --s0: #0067a3; --s1: #b35300; --s2: #00704f; --s3: #a3437b; --s4: #7a6a00; --s5: #6b7178; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --ink: #e8eaed; --muted: #a7afb8; --line: #363c43; --card: #1e2226; --alarm: #ff9d94;
  --s0: #56b4e9; --s1: #e69f00; --s2: #2ebf91; --s3: #dd9cc0; --s4: #f0e442; --s5: #99a1a9; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
p { margin: 0.3rem 0; overflow-wrap: anywhere; }
th span.muted, td span.muted { display: block; }
.note { display: block; white-space: normal; font-size: 0.8rem; }
.alarm, .cards small.alarm { color: var(--alarm); font-weight: 600; }
.muted { color: var(--muted); font-weight: 400; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 0.75rem; margin: 1rem 0; padding: 0; }
.cards div { background: var(--card); border-radius: 0.5rem; padding: 0.75rem; }
.cards dt { color: var(--muted); font-size: 0.9rem; }
.cards dd { margin: 0; font-size: 1.4rem; font-weight: 600; overflow-wrap: anywhere; }
.cards small { display: block; color: var(--muted); font-size: 0.8rem; font-weight: 400; }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 2px solid var(--s0); }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: 0.25rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th.n, td.n { text-align: right; white-space: nowrap; }
td.text { min-width: 12rem; }
code { font-size: 0.85em; overflow-wrap: anywhere; }
.chart svg { min-width: 34rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font-family: system-ui, sans-serif; }
svg .grid { stroke: var(--line); }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; padding: 0; margin: 0.5rem 0; list-style: none; font-size: 0.9rem; }
.legend i { display: inline-block; width: 0.8rem; height: 0.8rem; margin-right: 0.35rem; border-radius: 2px; }
.c0 { background: var(--s0); fill: var(--s0); } .c1 { background: var(--s1); fill: var(--s1); }
.c2 { background: var(--s2); fill: var(--s2); } .c3 { background: var(--s3); fill: var(--s3); }
.c4 { background: var(--s4); fill: var(--s4); } .c5 { background: var(--s5); fill: var(--s5); }
@media screen and (max-width: 40rem) {
  .cards { grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); } .cards dd { font-size: 1.15rem; }
  .scroll { overflow: visible; } .chart svg { min-width: 0; overflow: visible; } svg text { font-size: 22px; }
  table, caption, tbody, tr, th, td { display: block; } thead { display: none; }
  tr { padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
  th, td, th.n, td.n { border: 0; padding: 0.1rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 0; }
  td[data-label]::before { content: attr(data-label) ': '; color: var(--muted); }
}
@media print { .chart svg, td.text { min-width: 0; } th.n, td.n { white-space: normal; } body { font-size: 10pt; } table { font-size: 8pt; } .scroll { overflow: visible; } section { break-inside: avoid-page; } tr { break-inside: avoid; } }
";
