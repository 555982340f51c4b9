@0xb2a94c1f7d3e6058;
# HLIR graphs and LLIR programs, as they travel in blobs and task payloads.
#
# The values are those of common/ir (graph.h and llir.h say what each field means); enumerants stand
# in the order of the C++ enums. Whatever arrives passes common/ir's verifier before it is used.
#
# Size expressions are held once, in a table beside the value that uses them. A place that holds an
# expression holds a *reference*: 2 * v for the constant v, or 2 * k + 1 for entry k of the table.
# Most sizes are constants, so that most shapes are plain lists of numbers.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("schemas::ir");

struct ExprEntry {
  # One expression in canonical form. References point to earlier entries only.
  union {
    constant @0 :Int64;
    # One that a reference cannot hold.
    symbol @1 :UInt32;
    index @2 :UInt32;
    sum @3 :Sum;
    floorDiv @4 :Pair;
    mod @5 :Pair;
    min @6 :Pair;
    max @7 :Pair;
  }
  struct Pair {
    left @0 :Int64;
    right @1 :Int64;
  }
  struct Sum {
    constant @0 :Int64;
    terms @1 :List(Term);
  }
  struct Term {
    coefficient @0 :Int64;
    factors @1 :List(Int64);
    # References to entries that are neither constants nor sums.
  }
}

struct SymbolRange {
  min @0 :Int64;
  max @1 :Int64;
}

enum DType {
  bool @0; uint8 @1; int8 @2; int16 @3; int32 @4; int64 @5;
  float16 @6; bfloat16 @7; float32 @8; float64 @9; complex64 @10;
}

enum Op {
  input @0; constant @1; iota @2; view @3; cast @4; unary @5; binary @6; select @7; reduce @8;
  scan @9; gather @10; scatter @11; sort @12; loop @13; loopResult @14; contract @15; softmax @16;
  norm @17; fourier @18; philox @19;
}

enum UnaryOp {
  neg @0; abs @1; sign @2; not @3; exp @4; exp2 @5; expm1 @6; log @7; log2 @8; log10 @9; log1p @10;
  sqrt @11; rsqrt @12; recip @13; sin @14; cos @15; tan @16; asin @17; acos @18; atan @19; sinh @20;
  cosh @21; tanh @22; asinh @23; acosh @24; atanh @25; erf @26; erfc @27; sigmoid @28; floor @29;
  ceil @30; trunc @31; round @32; isNan @33; isInf @34; lgamma @35; digamma @36; erfinv @37;
}

enum BinaryOp {
  add @0; sub @1; mul @2; div @3; floorDiv @4; mod @5; fmod @6; min @7; max @8; pow @9; atan2 @10;
  copysign @11; hypot @12; nextafter @13; and @14; or @15; xor @16; shl @17; shr @18; less @19;
  lessEqual @20; equal @21; notEqual @22;
}

enum ReduceOp { sum @0; prod @1; max @2; min @3; any @4; all @5; argmax @6; argmin @7; }
enum ScanOp { sum @0; prod @1; max @2; min @3; logSumExp @4; }
enum ScatterMode { assign @0; add @1; mul @2; min @3; max @4; }

struct View {
  shape @0 :List(Int64);
  index @1 :List(Int64);
  valid @2 :List(Validity);
  fill @3 :Float64;
  struct Validity {
    value @0 :Int64;
    bound @1 :Int64;
  }
}

struct Coordinate {
  slot @0 :Int32;
  expr @1 :Int64;
}

struct Node {
  op @0 :Op;
  dtype @1 :DType;
  shape @2 :List(Int64);
  operands @3 :List(Int32);
  # Earlier nodes of the same graph.
  union {
    # The one that belongs to `op`.
    none @4 :Void;
    input @5 :Int32;
    constant @6 :Data;
    # Little-endian elements.
    view @7 :View;
    unary @8 :UnaryOp;
    binary @9 :BinaryOp;
    reduce @10 :Reduce;
    scan @11 :Scan;
    gather @12 :List(Coordinate);
    scatter @13 :Scatter;
    sort @14 :Sort;
    loop @15 :Loop;
    loopResult @16 :Int32;
    contract @17 :Contract;
    softmax @18 :Softmax;
    norm @19 :Norm;
    fourier @20 :Fourier;
  }
  struct Reduce {
    op @0 :ReduceOp;
    axes @1 :List(Int32);
  }
  struct Scan {
    op @0 :ScanOp;
    axis @1 :Int32;
  }
  struct Scatter {
    mode @0 :ScatterMode;
    coordinates @1 :List(Coordinate);
  }
  struct Sort {
    axis @0 :Int32;
    descending @1 :Bool;
    count @2 :Int64;
  }
  struct Loop {
    body @0 :Graph;
    tripCount @1 :Int64;
    carried @2 :Int32;
    invariant @3 :Int32;
    perIteration @4 :Int32;
    outputs @5 :Int32;
  }
  struct Contract {
    a @0 :List(Int32);
    b @1 :List(Int32);
    out @2 :List(Int32);
  }
  struct Softmax {
    axis @0 :Int32;
    log @1 :Bool;
  }
  struct Norm {
    axes @0 :Int32;
    centred @1 :Bool;
    epsilon @2 :Float64;
  }
  struct Fourier {
    imaginary @0 :Bool;
    inverse @1 :Bool;
    count @2 :Int64;
  }
}

struct GraphInput {
  enum Kind { user @0; weight @1; state @2; }
  kind @0 :Kind;
  dtype @1 :DType;
  shape @2 :List(Int64);
  name @3 :Text;
}

struct GraphOutput {
  enum Kind { user @0; mutate @1; check @2; }
  kind @0 :Kind;
  node @1 :Int32;
  # -1 in programs and plans.
  input @2 :Int32 = -1;
  limit @3 :Int64;
  # Of a check: its indices lie below this size, an expression.
  wraps @4 :Bool;
  # Of a check: indices from -limit on count from the end.
}

struct Graph {
  symbols @0 :List(SymbolRange);
  inputs @1 :List(GraphInput);
  nodes @2 :List(Node);
  outputs @3 :List(GraphOutput);
}

struct GraphDocument {
  # The content of a graph blob. The expressions serve the graph and the bodies of its loops.
  exprs @0 :List(ExprEntry);
  graph @1 :Graph;
}

enum Template { loops @0; tile @1; scan @2; scatter @3; sort @4; gemm @5; attention @6;
               fourier @7; horizontal @8; }

struct LoopBand {
  extents @0 :List(Int64);
  position @1 :List(Int64);
}

struct LoopNest {
  epilogue @0 :Bool;
  shared @1 :LoopBand;
  grid @2 :UInt32;
  blocksInGrid @3 :Bool;
  groups @4 :List(Group);
  transposed @5 :Bool;
  fused @6 :List(Fused);
  flat @7 :List(Int32);
  staged @8 :List(Int32);
  simd @9 :Int64;
  unroll @10 :Int64 = 1;
  dotProducts @11 :Bool;
  threads @12 :Int64 = 1;
  side @13 :Int64 = 1;
  blocks @14 :Int64 = 1;
  access @15 :Int64 = 1;
  rows @16 :Int64 = 1;
  ahead @17 :Bool;
  prefetchInput @18 :Int32;
  prefetchBytes @19 :Int64;
  # Of a block; 0: it asks for nothing early.
  walked @20 :List(Int32);
  struct Group {
    own @0 :LoopBand;
    width @1 :Int64;
    # Of its blocks of accumulators; 0: it has none.
    before @2 :UInt32;
  }
  struct Fused {
    first @0 :Int32;
    others @1 :List(Int32);
  }
}

struct Tiling {
  form @0 :Text;
  sizes @1 :List(Size);
  struct Size {
    name @0 :Text;
    value @1 :Int64;
  }
}

struct Kernel {
  form @0 :Template;
  schedule @1 :List(Parameter);
  body @2 :Graph;
  nest @3 :LoopNest;
  # Without groups: whoever prints the kernel gives it the nest that its schedule asks for.
  partNests @4 :List(LoopNest);
  # Of a horizontal kernel; without groups: the part is a scatter.
  tiling @5 :Tiling;
  # Without a form: whoever prints the kernel gives it the tiling that its schedule asks for.
  struct Parameter {
    name @0 :Text;
    value @1 :Int64;
  }
}

struct Buffer {
  enum Kind { input @0; output @1; temporary @2; }
  kind @0 :Kind;
  position @1 :Int32;
  dtype @2 :DType;
  shape @3 :List(Int64);
}

struct Call {
  kernel @0 :Int32;
  inputs @1 :List(Int32);
  outputs @2 :List(Int32);
  symbols @3 :List(Int64);
}

struct Program {
  exprs @0 :List(ExprEntry);
  # Of the program and its kernels' bodies.
  symbols @1 :List(SymbolRange);
  inputs @2 :List(GraphInput);
  outputs @3 :List(GraphOutput);
  buffers @4 :List(Buffer);
  kernels @5 :List(Kernel);
  calls @6 :List(Call);
}
