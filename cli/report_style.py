"""The style sheet of a report: light and dark, from a phone's width on, and readable without colour."""

STYLE = """\
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2430; --faint: #5b6675; --line: #d5dbe3; --panel: #f5f7fa;
  --accepted: #2563a8; --rejected: #8a94a3; --own: #b3591b; --even: #d9e8f8; --odd: #fbe9cf; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181e; --ink: #e4e9f0; --faint: #a0abba; --line: #38414d;
  --panel: #1c222a; --accepted: #6aa9ec; --rejected: #8a94a3; --own: #e0944f; --even: #1d3a58; --odd: #4a3718; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 0.3rem; } figure h3 { margin: 0 0 0.3rem; }
p { margin: 0.3rem 0; } .faint { color: var(--faint); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0.6rem; margin: 1rem 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 0.5rem 0.8rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.3; } .tile span { color: var(--faint); font-size: 0.85rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 0.7rem;
  min-width: 0; }
figure p { color: var(--faint); font-size: 0.85rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
.accepted { fill: var(--accepted); } .rejected { fill: url(#hatch); stroke: var(--rejected); stroke-width: 0.5; }
.rejected-ink { fill: var(--rejected); } .paper { fill: var(--panel); } .own { fill: var(--own); }
.grid { stroke: var(--line); } .frame { fill: none; stroke: var(--faint); }
.key { display: inline-block; width: 1.2em; height: 0.8em; border: 1px solid var(--faint); vertical-align: baseline; }
.key svg { height: 100%; }
pre { margin: 0.5rem 0; padding: 0.8rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.6 ui-monospace, monospace; tab-size: 4; }
.step { color: inherit; text-underline-offset: 0.25em; border-radius: 2px; text-decoration-thickness: 1px; }
.even { background: var(--even); text-decoration-line: underline; text-decoration-style: solid; }
.odd { background: var(--odd); text-decoration-line: underline; text-decoration-style: dotted; }
.step:hover, .step:focus { outline: 2px solid var(--accepted); }
.lines { counter-reset: line; } .line { display: inline-block; width: 100%; padding-left: 3.5em; text-indent: -3.5em; }
.line::before { counter-increment: line; content: counter(line); display: inline-block; width: 3em; margin-right: 0.5em;
  text-indent: 0; text-align: right; color: var(--faint); user-select: none; }
.line:target { outline: 2px solid var(--accepted); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; white-space: nowrap; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
dl { display: grid; grid-template-columns: minmax(5rem, auto) 1fr; gap: 0.2rem 1rem; font-size: 0.9rem; }
dt { color: var(--faint); } dd { margin: 0; min-width: 0; }
summary { cursor: pointer; } details { margin: 0.5rem 0; }
@media print { body { max-width: none; } }
"""
