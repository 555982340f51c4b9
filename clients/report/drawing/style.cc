#include "clients/report/drawing/style.h"

namespace clients {

const char* const kReportStyle = R"css(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f23;--muted:#57606a;--line:#d8dde2;--faint:#edf0f2;
--panel:#f6f8f9;--ok:#116b3e;--bad:#b3261e;--part:#8a5a00;--s0:#0a58a6;--s1:#b4540a;--s2:#0f766e;--s3:#8b3d88;
--s4:#7a6200;--s5:#6b7480;--s6:#b0254f;--s7:#4b6a1f;--p1:#e3eef8;--p2:#b9d6ef;--p3:#2f74b5;--p3t:#fff;--m1:#fdeddc;
--m2:#f6cda3;--m3:#b4540a;--m3t:#fff;--q0:#edf2f7;--q1:#dae6f1;--q2:#c0d6ea;--q3:#9fc1df;--q4:#7aa9d2;
--q5:#5490c4;--q6:#3374b1;--q7:#1b5a94;--q8:#0c3d70}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e7eaed;--muted:#a2abb4;--line:#353b42;
--faint:#24292e;--panel:#1b1f24;--ok:#5fce93;--bad:#ff8f86;--part:#eeb45c;--s0:#6cb2f5;--s1:#f0a05a;--s2:#56c9bd;
--s3:#d695d2;--s4:#d6bd55;--s5:#99a3ad;--s6:#ff8fab;--s7:#a6cc70;--p1:#1c2f42;--p2:#234d75;--p3:#8cc3f7;--p3t:#0e1418;
--m1:#3a2a1a;--m2:#6b4318;--m3:#f3b27a;--m3t:#1a1208;--q0:#1d252d;
--q1:#1e3246;--q2:#204160;--q3:#24527c;--q4:#2c6699;--q5:#3c7eb5;--q6:#5b9ace;--q7:#86b9e3;--q8:#c0ddf7}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:62rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .25rem;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:3rem 0 .25rem;padding-top:1.25rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.75rem 0 .5rem}h3 .note{font-weight:400}
h4{font-size:.9375rem;margin:1.5rem 0 .25rem}h3+.sub{margin-top:-.25rem}
p{margin:.25rem 0 .75rem;max-width:44rem}
.sub,.note,.name .note,figcaption,.none{color:var(--muted)}
code{font:.875em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
bdi{overflow-wrap:anywhere}
.facts{display:flex;flex-wrap:wrap;gap:.75rem 2.5rem;margin:1.5rem 0 0;padding:0}
.facts div{min-width:7rem}
.facts dt{color:var(--muted);font-size:.875rem}
.facts dd{margin:0;font-size:1.375rem;font-weight:600;font-variant-numeric:tabular-nums}
.pass{color:var(--ok)}.fail{color:var(--bad)}.part{color:var(--part)}
td.pass,td.fail,td.part,.verdict{font-weight:600;white-space:nowrap}
.scroll{overflow-x:auto;margin:.5rem 0}
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--s0);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);padding:.25rem 0}
th,td{text-align:left;padding:.375rem .75rem .375rem 0;border-bottom:1px solid var(--faint);
vertical-align:baseline}
thead th{color:var(--muted);font-weight:500;border-bottom-color:var(--line);white-space:nowrap}
tbody th{font-weight:400}tbody th:not(.num){min-width:6rem}
.num{text-align:right;white-space:nowrap}
.met{white-space:nowrap}
.gates caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.gates td:nth-child(2){min-width:9rem}.gates td:last-child{min-width:13rem}
figure{margin:.75rem 0 0}
figcaption{font-size:.875rem}
details{margin:.5rem 0 0}
summary{cursor:pointer;color:var(--muted);font-size:.875rem;width:fit-content}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.5rem 0;padding:0;
font-size:.875rem}
.legend li{display:flex;align-items:center;gap:.4rem}
svg{overflow:visible}
svg text{fill:var(--muted);font-size:12px;font-variant-numeric:tabular-nums}
.grid{stroke:var(--faint)}.base{stroke:var(--muted)}
.strip{display:grid;grid-template-columns:minmax(10rem,17rem) 1fr 6.5rem;gap:0 1rem;
align-items:center;font-size:.875rem;break-inside:avoid}
.strip .name{padding:.1rem 0;line-height:1.3}
.strip .value{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.strip .value.fail{grid-column:2/-1;text-align:left;white-space:normal}
.strip .track{width:100%;display:block}
.axis .name{color:var(--muted)}
.plot{width:100%;display:block;margin-top:.5rem}
.range{stroke-width:3;stroke-opacity:.35;stroke-linecap:round}
.join{stroke-opacity:.45}.run{stroke-opacity:.3}.middle{stroke-width:2}
.s0{color:var(--s0)}.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}
.s4{color:var(--s4)}.s5{color:var(--s5)}.s6{color:var(--s6)}.s7{color:var(--s7)}
path.s0,path.s1,path.s2,path.s3,path.s4,path.s5,path.s6,path.s7{fill:currentColor}
.range,.join,.run,.middle{stroke:currentColor}
.plot path.curve{fill:none;stroke:currentColor;stroke-width:1.75;stroke-linejoin:round;
vector-effect:non-scaling-stroke}
.ring{fill:none;stroke:var(--bad);stroke-width:2}
.heatmap rect,.key rect{shape-rendering:crispEdges}
.q0{fill:var(--q0)}.q1{fill:var(--q1)}.q2{fill:var(--q2)}.q3{fill:var(--q3)}.q4{fill:var(--q4)}
.q5{fill:var(--q5)}.q6{fill:var(--q6)}.q7{fill:var(--q7)}.q8{fill:var(--q8)}.qx{fill:none}
.d0{fill:var(--m3)}.d1{fill:var(--m2)}.d2{fill:var(--m1)}.d3{fill:var(--faint)}.d4{fill:var(--p1)}
.d5{fill:var(--p2)}.d6{fill:var(--p3)}
.here path{fill:none;stroke:var(--bad);stroke-width:2}
rect.bar{fill:currentColor}
.key{display:flex;align-items:center;gap:.5rem;color:var(--muted);font-size:.8125rem;
font-variant-numeric:tabular-nums}
.multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));
gap:1rem 2rem}
.multiples figure{break-inside:avoid;min-width:0}
.multiples figcaption{color:var(--fg)}
.wide{grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr))}
.heats{display:flex;flex-wrap:wrap;gap:1rem 3rem}.heats .scroll{max-width:100%}
.heat{width:auto}.heat caption{white-space:nowrap;color:var(--fg)}
.heat td,.heat thead th.num{text-align:right;padding:.375rem .75rem;min-width:4.25rem}
.heat th[scope=row]{padding-right:1.25rem;min-width:8rem}
.heat td{border:2px solid var(--bg)}
.p1{background:var(--p1)}.p2{background:var(--p2)}.p3{background:var(--p3);color:var(--p3t)}
.e0{background:var(--faint)}
.m1{background:var(--m1)}.m2{background:var(--m2)}.m3{background:var(--m3);color:var(--m3t)}
.cards{list-style:none;display:grid;gap:.75rem;margin:1rem 0;padding:0;
grid-template-columns:repeat(auto-fill,minmax(min(100%,14.5rem),1fr))}
.card{background:var(--panel);border-radius:6px;padding:.75rem 1rem;font-size:.875rem;
break-inside:avoid}
.card .title{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 .75rem;
font-size:1rem;margin:0 0 .35rem}
.card dl{display:grid;grid-template-columns:1fr auto;gap:.125rem .75rem;margin:0}
.card dt{color:var(--muted)}.card dd{margin:0;font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
.tabs>input{position:absolute;opacity:0}
.tabs>label{display:inline-block;margin:.75rem 1.25rem 0 0;padding:.25rem 0;color:var(--muted);
border-bottom:2px solid transparent;cursor:pointer}
.tabs>input:checked+label{color:var(--fg);border-bottom-color:var(--s0)}
.tabs>input:focus-visible+label{outline:2px solid var(--s0);outline-offset:2px}
.tabs>section{display:none}.tabs>section>h3{display:none}
.tabs>input:nth-of-type(1):checked~section:nth-of-type(1),
.tabs>input:nth-of-type(2):checked~section:nth-of-type(2),
.tabs>input:nth-of-type(3):checked~section:nth-of-type(3),
.tabs>input:nth-of-type(4):checked~section:nth-of-type(4),
.tabs>input:nth-of-type(5):checked~section:nth-of-type(5),
.tabs>input:nth-of-type(6):checked~section:nth-of-type(6),
.tabs>input:nth-of-type(7):checked~section:nth-of-type(7),
.tabs>input:nth-of-type(8):checked~section:nth-of-type(8),
.tabs>section:nth-of-type(n+9),.tabs>section:nth-of-type(n+9)>h3{display:block}
.empty{background:var(--panel);padding:1rem 1.25rem;border-radius:6px;margin:1.5rem 0}
.empty p{margin:.25rem 0}
@media (max-width:40rem){main{padding:1.5rem 1rem 3rem}
.strip{grid-template-columns:1fr auto;padding:.25rem 0}.strip .track{grid-column:1/-1;grid-row:2}
.axis{padding-top:0}.axis .value{display:none}h2{margin-top:2.25rem}
.facts{display:grid;grid-template-columns:repeat(3,1fr);gap:.75rem 1rem}.facts div{min-width:0}
.facts div:first-child{grid-column:1/-1}
.heat td,.heat thead th.num{padding:.375rem .4rem;min-width:3.4rem}.heat th[scope=row]{padding-right:.5rem;min-width:6rem}
.gates thead{display:none}.gates tr{display:grid;grid-template-columns:auto 1fr auto;gap:0 .75rem;
border-bottom:1px solid var(--faint);padding:.25rem 0}.gates td{border:0;padding:.125rem 0}
.gates td:nth-child(2),.gates td:last-child{min-width:0}.gates td:last-child{grid-column:1/-1}
.gates .worst::before{content:"worst: ";color:var(--muted)}}
@media print{:root{color-scheme:light;--bg:#fff;--fg:#000;--muted:#444}
.tabs>label{display:none}.tabs>section,.tabs>section>h3{display:block}
body{font-size:10pt}main{max-width:none;padding:0}summary{display:none}
details::details-content{content-visibility:visible;block-size:auto;display:block}
h2,h3{break-after:avoid}tr{break-inside:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

}  // namespace clients
