#include "common/wire/ir_codec.h"

#include "common/ir/hlir/verify.h"
#include "common/ir/llir/horizontal.h"
#include "common/wire/codec.h"
#include "common/wire/ir_pieces.h"
#include "schemas/plan.capnp.h"

namespace common {
namespace {

namespace ir = schemas::ir;

// The schema's enums name the same things in the same order.
static_assert(static_cast<int>(ir::DType::COMPLEX64) + 1 == kDTypeCount);
static_assert(static_cast<int>(ir::Op::PHILOX) + 1 == kOpCount);
static_assert(static_cast<int>(ir::UnaryOp::ERFINV) + 1 == kUnaryOpCount);
static_assert(static_cast<int>(ir::BinaryOp::NOT_EQUAL) + 1 == kBinaryOpCount);
static_assert(static_cast<int>(ir::ReduceOp::ARGMIN) + 1 == kReduceOpCount);
static_assert(static_cast<int>(ir::ScanOp::LOG_SUM_EXP) + 1 == kScanOpCount);
static_assert(static_cast<int>(ir::ScatterMode::MAX) + 1 == kScatterModeCount);
static_assert(static_cast<int>(ir::Template::HORIZONTAL) + 1 == kTemplateCount);

constexpr DType kDTypeLast = DType::kComplex64;

// Which alternative of Attr an operation carries, as its number.
size_t attribute_of(Op op) {
  switch (op) {
    case Op::kIota:
    case Op::kCast:
    case Op::kSelect:
    case Op::kPhilox:
      return 0;
    case Op::kInput:
      return 1;
    case Op::kConstant:
      return 2;
    case Op::kView:
      return 3;
    case Op::kUnary:
      return 4;
    case Op::kBinary:
      return 5;
    case Op::kReduce:
      return 6;
    case Op::kScan:
      return 7;
    case Op::kGather:
      return 8;
    case Op::kScatter:
      return 9;
    case Op::kSort:
      return 10;
    case Op::kLoop:
      return 11;
    case Op::kLoopResult:
      return 12;
    case Op::kContract:
      return 13;
    case Op::kSoftmax:
      return 14;
    case Op::kNorm:
      return 15;
    case Op::kFourier:
      return 16;
  }
  return std::variant_npos;
}

void put_ints(Ints::Builder out, const std::vector<int>& values) {
  for (size_t i = 0; i < values.size(); ++i) out.set(list_size(i), values[i]);
}

std::vector<int> get_ints(Ints::Reader in, size_t count_max, const char* what) {
  return get_numbers<int32_t>(in, count_max, what);
}

}  // namespace

std::string get_name(capnp::Text::Reader in, const char* what) {
  std::string name = get_text(in, kNameBytesMax);
  for (unsigned char c : name) {
    if (c < 0x20 || c > 0x7e) throw Malformed{cat(what, " with other than printable ASCII")};
  }
  return name;
}

std::string get_clean_text(capnp::Text::Reader in, const char* what) {
  std::string text = get_text(in, kTextBytesMax);
  if (!is_clean_text(text, kTextBytesMax)) throw Malformed{cat(what, " that is not clean UTF-8")};
  return text;
}

// ---- Writing -----------------------------------------------------------------------------------

void IrWriter::symbols(capnp::List<ir::SymbolRange>::Builder out,
                       const std::vector<SymbolRange>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    out[list_size(i)].setMin(symbols[i].min);
    out[list_size(i)].setMax(symbols[i].max);
  }
}

void IrWriter::inputs(capnp::List<ir::GraphInput>::Builder out,
                      const std::vector<GraphInput>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto entry = out[list_size(i)];
    entry.setKind(static_cast<ir::GraphInput::Kind>(inputs[i].kind));
    entry.setDtype(static_cast<ir::DType>(inputs[i].dtype));
    refs(entry.initShape(list_size(inputs[i].shape.size())), inputs[i].shape);
    entry.setName(kj_text(inputs[i].name));
  }
}

void IrWriter::outputs(capnp::List<ir::GraphOutput>::Builder out,
                       const std::vector<GraphOutput>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto entry = out[list_size(i)];
    entry.setKind(static_cast<ir::GraphOutput::Kind>(outputs[i].kind));
    entry.setNode(outputs[i].node);
    entry.setInput(outputs[i].input);
    if (outputs[i].kind != OutputKind::kCheck) continue;
    entry.setLimit(ref(outputs[i].limit));
    entry.setWraps(outputs[i].wraps);
  }
}

void IrWriter::buffers(capnp::List<ir::Buffer>::Builder out, const std::vector<Buffer>& buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto entry = out[list_size(i)];
    entry.setKind(static_cast<ir::Buffer::Kind>(buffers[i].kind));
    entry.setPosition(buffers[i].position);
    entry.setDtype(static_cast<ir::DType>(buffers[i].dtype));
    refs(entry.initShape(list_size(buffers[i].shape.size())), buffers[i].shape);
  }
}

void IrWriter::calls(capnp::List<ir::Call>::Builder out, const std::vector<Call>& calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    auto entry = out[list_size(i)];
    entry.setKernel(calls[i].kernel);
    put_ints(entry.initInputs(list_size(calls[i].inputs.size())), calls[i].inputs);
    put_ints(entry.initOutputs(list_size(calls[i].outputs.size())), calls[i].outputs);
    refs(entry.initSymbols(list_size(calls[i].symbols.size())), calls[i].symbols);
  }
}

void IrWriter::view(ir::View::Builder out, const View& view) {
  refs(out.initShape(list_size(view.shape.size())), view.shape);
  refs(out.initIndex(list_size(view.index.size())), view.index);
  auto valid = out.initValid(list_size(view.valid.size()));
  for (size_t i = 0; i < view.valid.size(); ++i) {
    valid[list_size(i)].setValue(ref(view.valid[i].value));
    valid[list_size(i)].setBound(ref(view.valid[i].bound));
  }
  out.setFill(view.fill);
}

void IrWriter::coordinates(capnp::List<ir::Coordinate>::Builder out,
                           const std::vector<Coordinate>& coordinates) {
  for (size_t i = 0; i < coordinates.size(); ++i) {
    out[list_size(i)].setSlot(coordinates[i].slot);
    out[list_size(i)].setExpr(ref(coordinates[i].expr));
  }
}

void IrWriter::loop(ir::Node::Loop::Builder out, const LoopAttr& attr) {
  graph(out.initBody(), *attr.body);
  out.setTripCount(attr.trip_count);
  out.setCarried(attr.carried);
  out.setInvariant(attr.invariant);
  out.setPerIteration(attr.per_iteration);
  out.setOutputs(attr.outputs);
}

// Long because it is a table: one short case per kind of attribute.
void IrWriter::node(ir::Node::Builder out, const Node& node) {
  out.setOp(static_cast<ir::Op>(node.op));
  out.setDtype(static_cast<ir::DType>(node.dtype));
  refs(out.initShape(list_size(node.shape.size())), node.shape);
  put_ints(out.initOperands(list_size(node.operands.size())), node.operands);
  switch (node.op) {
    case Op::kInput:
      return out.setInput(attr<InputAttr>(node).position);
    case Op::kConstant:
      return out.setConstant(kj_data(*attr<ConstantAttr>(node).data));
    case Op::kView:
      return view(out.initView(), attr<ViewAttr>(node).view);
    case Op::kUnary:
      return out.setUnary(static_cast<ir::UnaryOp>(attr<UnaryAttr>(node).op));
    case Op::kBinary:
      return out.setBinary(static_cast<ir::BinaryOp>(attr<BinaryAttr>(node).op));
    case Op::kReduce: {
      const auto& a = attr<ReduceAttr>(node);
      auto reduce = out.initReduce();
      reduce.setOp(static_cast<ir::ReduceOp>(a.op));
      return put_ints(reduce.initAxes(list_size(a.axes.size())), a.axes);
    }
    case Op::kScan: {
      auto scan = out.initScan();
      scan.setOp(static_cast<ir::ScanOp>(attr<ScanAttr>(node).op));
      return scan.setAxis(attr<ScanAttr>(node).axis);
    }
    case Op::kGather: {
      const auto& a = attr<GatherAttr>(node).coordinates;
      return coordinates(out.initGather(list_size(a.size())), a);
    }
    case Op::kScatter: {
      const auto& a = attr<ScatterAttr>(node);
      auto scatter = out.initScatter();
      scatter.setMode(static_cast<ir::ScatterMode>(a.mode));
      return coordinates(scatter.initCoordinates(list_size(a.coordinates.size())), a.coordinates);
    }
    case Op::kSort: {
      auto sort = out.initSort();
      const auto& a = attr<SortAttr>(node);
      sort.setAxis(a.axis);
      sort.setDescending(a.descending);
      return sort.setCount(a.count);
    }
    case Op::kLoop:
      return loop(out.initLoop(), attr<LoopAttr>(node));
    case Op::kLoopResult:
      return out.setLoopResult(attr<LoopResultAttr>(node).result);
    case Op::kContract: {
      const auto& a = attr<ContractAttr>(node);
      auto contract = out.initContract();
      put_ints(contract.initA(list_size(a.a.size())), a.a);
      put_ints(contract.initB(list_size(a.b.size())), a.b);
      return put_ints(contract.initOut(list_size(a.out.size())), a.out);
    }
    case Op::kSoftmax: {
      auto softmax = out.initSoftmax();
      softmax.setAxis(attr<SoftmaxAttr>(node).axis);
      return softmax.setLog(attr<SoftmaxAttr>(node).log);
    }
    case Op::kNorm: {
      const auto& a = attr<NormAttr>(node);
      auto norm = out.initNorm();
      norm.setAxes(a.axes);
      norm.setCentred(a.centred);
      return norm.setEpsilon(a.epsilon);
    }
    case Op::kFourier: {
      const auto& a = attr<FourierAttr>(node);
      auto fourier = out.initFourier();
      fourier.setImaginary(a.imaginary);
      fourier.setInverse(a.inverse);
      return fourier.setCount(a.count);
    }
    case Op::kIota:
    case Op::kCast:
    case Op::kSelect:
    case Op::kPhilox:
      return out.setNone();
  }
}

void IrWriter::graph(ir::Graph::Builder out, const Graph& graph) {
  symbols(out.initSymbols(list_size(graph.symbols.size())), graph.symbols);
  inputs(out.initInputs(list_size(graph.inputs.size())), graph.inputs);
  auto nodes = out.initNodes(list_size(graph.nodes.size()));
  for (size_t i = 0; i < graph.nodes.size(); ++i) node(nodes[list_size(i)], graph.nodes[i]);
  outputs(out.initOutputs(list_size(graph.outputs.size())), graph.outputs);
}

void IrWriter::program(ir::Program::Builder out, const Program& program) {
  symbols(out.initSymbols(list_size(program.symbols.size())), program.symbols);
  inputs(out.initInputs(list_size(program.inputs.size())), program.inputs);
  outputs(out.initOutputs(list_size(program.outputs.size())), program.outputs);
  buffers(out.initBuffers(list_size(program.buffers.size())), program.buffers);
  auto kernels = out.initKernels(list_size(program.kernels.size()));
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    kernel(kernels[list_size(i)], program.kernels[i]);
  }
  calls(out.initCalls(list_size(program.calls.size())), program.calls);
  exprs(out.initExprs(list_size(expr_count())));
}

// ---- Reading -----------------------------------------------------------------------------------

std::vector<SymbolRange> IrReader::symbols(capnp::List<ir::SymbolRange>::Reader in) const {
  check_count(in, kSymbolsMax, "symbols");
  std::vector<SymbolRange> symbols;
  symbols.reserve(in.size());
  for (auto range : in) {
    symbols.push_back({range.getMin(), range.getMax()});
    if (range.getMin() < 0 || range.getMin() > range.getMax()) {
      throw Malformed{"a symbol with an empty or negative range"};
    }
  }
  return symbols;
}

std::vector<GraphInput> IrReader::inputs(capnp::List<ir::GraphInput>::Reader in,
                                         size_t symbols) const {
  check_count(in, kNodesMax, "inputs");
  std::vector<GraphInput> inputs;
  inputs.reserve(in.size());
  for (auto input : in) {
    inputs.push_back({get_enum(input.getKind(), InputKind::kState, "input kind"),
                      get_enum(input.getDtype(), kDTypeLast, "dtype"),
                      size_exprs(input.getShape(), kRankMax, symbols),
                      get_clean_text(input.getName(), "an input name")});
  }
  return inputs;
}

std::vector<GraphOutput> IrReader::outputs(capnp::List<ir::GraphOutput>::Reader in, size_t symbols,
                                           bool with_nodes) const {
  check_count(in, kNodesMax, "outputs");
  std::vector<GraphOutput> outputs;
  outputs.reserve(in.size());
  for (auto output : in) {
    GraphOutput read{get_enum(output.getKind(), OutputKind::kCheck, "output kind"),
                     output.getNode(), output.getInput()};
    if (read.kind == OutputKind::kCheck) {
      read.limit = size_expr(output.getLimit(), symbols);
      read.wraps = output.getWraps();
    }
    outputs.push_back(std::move(read));
    if (!with_nodes && output.getNode() != -1) throw Malformed{"an output of a node elsewhere"};
  }
  return outputs;
}

std::vector<Buffer> IrReader::buffers(capnp::List<ir::Buffer>::Reader in, size_t symbols) const {
  check_count(in, kNodesMax, "buffers");
  std::vector<Buffer> buffers;
  buffers.reserve(in.size());
  for (auto buffer : in) {
    buffers.push_back({get_enum(buffer.getKind(), BufferKind::kTemporary, "buffer kind"),
                       buffer.getPosition(), get_enum(buffer.getDtype(), kDTypeLast, "dtype"),
                       size_exprs(buffer.getShape(), kRankMax, symbols)});
  }
  return buffers;
}

std::vector<Call> IrReader::calls(capnp::List<ir::Call>::Reader in, size_t symbols) const {
  check_count(in, kNodesMax, "calls");
  std::vector<Call> calls;
  calls.reserve(in.size());
  for (auto call : in) {
    calls.push_back({call.getKernel(), get_ints(call.getInputs(), kNodesMax, "operands"),
                     get_ints(call.getOutputs(), kNodesMax, "results"),
                     size_exprs(call.getSymbols(), kSymbolsMax, symbols)});
  }
  return calls;
}

View IrReader::view(ir::View::Reader in) const {
  auto list = [&](Refs::Reader refs) {
    check_count(refs, kRankMax, "axes");
    std::vector<Expr> exprs;
    for (int64_t ref : refs) exprs.push_back(expr(ref));
    return exprs;
  };
  View view;
  view.shape = list(in.getShape());
  view.index = list(in.getIndex());
  auto valid = in.getValid();
  check_count(valid, kExprWeightMax, "validities");
  for (auto check : valid) view.valid.push_back({expr(check.getValue()), expr(check.getBound())});
  view.fill = in.getFill();
  return view;
}

std::vector<Coordinate> IrReader::coordinates(capnp::List<ir::Coordinate>::Reader in) const {
  check_count(in, kRankMax, "coordinates");
  std::vector<Coordinate> coordinates;
  for (auto coordinate : in) {
    if (coordinate.getSlot() < -1) throw Malformed{"a coordinate that names no index"};
    coordinates.push_back({coordinate.getSlot(), expr(coordinate.getExpr())});
  }
  return coordinates;
}

LoopAttr IrReader::loop(ir::Node::Loop::Reader in) {
  LoopAttr loop;
  loop.body = std::make_shared<const Graph>(graph(in.getBody()));
  loop.trip_count = in.getTripCount();
  loop.carried = in.getCarried();
  loop.invariant = in.getInvariant();
  loop.per_iteration = in.getPerIteration();
  loop.outputs = in.getOutputs();
  for (int64_t count : {loop.trip_count, int64_t{loop.carried}, int64_t{loop.invariant},
                        int64_t{loop.per_iteration}, int64_t{loop.outputs}}) {
    if (count < 0 || count > static_cast<int64_t>(kNodesMax)) {
      throw Malformed{cat("a loop with a count of ", count)};
    }
  }
  return loop;
}

Attr IrReader::attribute(ir::Node::Reader in) {
  using Kind = ir::Node;
  switch (in.which()) {
    case Kind::NONE:
      return std::monostate{};
    case Kind::INPUT:
      return InputAttr{in.getInput()};
    case Kind::CONSTANT:
      return ConstantAttr{
          std::make_shared<const Bytes>(get_data(in.getConstant(), kMaxConstantBytes))};
    case Kind::VIEW:
      return ViewAttr{view(in.getView())};
    case Kind::UNARY:
      return UnaryAttr{get_enum(in.getUnary(), UnaryOp::kErfinv, "unary operation")};
    case Kind::BINARY:
      return BinaryAttr{get_enum(in.getBinary(), BinaryOp::kNotEqual, "binary operation")};
    case Kind::REDUCE: {
      auto reduce = in.getReduce();
      return ReduceAttr{get_enum(reduce.getOp(), ReduceOp::kArgmin, "reduction"),
                        get_ints(reduce.getAxes(), kRankMax, "axes")};
    }
    case Kind::SCAN: {
      auto scan = in.getScan();
      return ScanAttr{get_enum(scan.getOp(), ScanOp::kLogSumExp, "scan"), scan.getAxis()};
    }
    case Kind::GATHER:
      return GatherAttr{coordinates(in.getGather())};
    case Kind::SCATTER: {
      auto scatter = in.getScatter();
      return ScatterAttr{get_enum(scatter.getMode(), ScatterMode::kMax, "scatter mode"),
                         coordinates(scatter.getCoordinates())};
    }
    case Kind::SORT: {
      auto sort = in.getSort();
      return SortAttr{sort.getAxis(), sort.getDescending(), sort.getCount()};
    }
    case Kind::LOOP:
      return loop(in.getLoop());
    case Kind::LOOP_RESULT:
      return LoopResultAttr{in.getLoopResult()};
    case Kind::CONTRACT: {
      auto contract = in.getContract();
      return ContractAttr{get_ints(contract.getA(), kRankMax, "labels"),
                          get_ints(contract.getB(), kRankMax, "labels"),
                          get_ints(contract.getOut(), kRankMax, "labels")};
    }
    case Kind::SOFTMAX: {
      auto softmax = in.getSoftmax();
      return SoftmaxAttr{softmax.getAxis(), softmax.getLog()};
    }
    case Kind::NORM: {
      auto norm = in.getNorm();
      return NormAttr{norm.getAxes(), norm.getCentred(), norm.getEpsilon()};
    }
    case Kind::FOURIER: {
      auto fourier = in.getFourier();
      return FourierAttr{fourier.getImaginary(), fourier.getInverse(), fourier.getCount()};
    }
  }
  throw Malformed{"a node with unknown attributes"};
}

Node IrReader::node(ir::Node::Reader in, size_t symbols) {
  if (++nodes_ > kNodesMax) throw Malformed{cat("more than ", kNodesMax, " nodes")};
  Node node;
  node.op = get_enum(in.getOp(), static_cast<Op>(kOpCount - 1), "operation");
  node.dtype = get_enum(in.getDtype(), kDTypeLast, "dtype");
  node.shape = size_exprs(in.getShape(), kRankMax, symbols);
  node.operands = get_ints(in.getOperands(), kNodesMax, "operands");
  node.attr = attribute(in);
  if (node.attr.index() != attribute_of(node.op)) {
    throw Malformed{cat("a node of ", op_name(node.op), " with another operation's attributes")};
  }
  return node;
}

Graph IrReader::graph(ir::Graph::Reader in) {
  Graph graph;
  graph.symbols = symbols(in.getSymbols());
  graph.inputs = inputs(in.getInputs(), graph.symbols.size());
  auto nodes = in.getNodes();
  check_count(nodes, kNodesMax, "nodes");
  graph.nodes.reserve(nodes.size());
  for (auto entry : nodes) graph.nodes.push_back(node(entry, graph.symbols.size()));
  graph.outputs = outputs(in.getOutputs(), graph.symbols.size(), true);
  return graph;
}

Program IrReader::program(ir::Program::Reader in) {
  Program program;
  program.symbols = symbols(in.getSymbols());
  size_t count = program.symbols.size();
  program.inputs = inputs(in.getInputs(), count);
  program.outputs = outputs(in.getOutputs(), count, false);
  program.buffers = buffers(in.getBuffers(), count);
  auto kernels = in.getKernels();
  check_count(kernels, kKernelsMax, "kernels");
  program.kernels.reserve(kernels.size());
  for (auto entry : kernels) program.kernels.push_back(kernel(entry));
  program.calls = calls(in.getCalls(), count);
  return program;
}

// ---- Documents ---------------------------------------------------------------------------------

Bytes encode_graph(const Graph& graph) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<ir::GraphDocument>();
  IrWriter writer;
  writer.graph(root.initGraph(), graph);
  writer.exprs(root.initExprs(list_size(writer.expr_count())));
  return flatten(builder);
}

Result<Graph> decode_graph(ByteView bytes) {
  return decode_flat<Graph, ir::GraphDocument>(bytes, "graph", kBlobBytesMax, kIrNestingMax,
                                               [](ir::GraphDocument::Reader in) -> Result<Graph> {
                                                 IrReader reader(in.getExprs());
                                                 Graph graph = reader.graph(in.getGraph());
                                                 LFARM_RETURN_IF_ERROR(verify(graph));
                                                 return graph;
                                               });
}

Bytes encode_program(const Program& program) {
  capnp::MallocMessageBuilder builder;
  IrWriter().program(builder.initRoot<ir::Program>(), program);
  return flatten(builder);
}

Result<Program> decode_program(ByteView bytes) {
  return decode_flat<Program, ir::Program>(bytes, "program", kBlobBytesMax, kIrNestingMax,
                                           [](ir::Program::Reader in) -> Result<Program> {
                                             IrReader reader(in.getExprs());
                                             Program program = reader.program(in);
                                             LFARM_RETURN_IF_ERROR(verify(program));
                                             return program;
                                           });
}

Bytes encode_revocations(const RevocationList& list) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<schemas::plan::RevocationList>();
  put(root.initPlans(list_size(list.plans.size())), list.plans);
  if (!list.rules.empty()) {
    auto rules = root.initRules(list_size(list.rules.size()));
    for (size_t k = 0; k < list.rules.size(); ++k) put(rules[list_size(k)], list.rules[k]);
  }
  root.setNumber(list.number);
  root.setUntilNs(list.until_ns);
  return flatten(builder);
}

Result<RevocationList> decode_revocations(ByteView bytes) {
  auto read = [](schemas::plan::RevocationList::Reader in) -> Result<RevocationList> {
    RevocationList list{get(in.getPlans())};
    // All is followed once: a message may be read little more than once.
    auto rules = in.getRules();
    check_count(rules, kRevocationRulesMax, "rules");
    for (auto rule : rules) {
      RevocationRule one = get_rule(rule);
      get_name({one.worker.c_str(), one.worker.size()}, "a worker's name");
      get_clean_text({one.toolchain.c_str(), one.toolchain.size()}, "a toolchain");
      list.rules.push_back(std::move(one));
    }
    list.number = in.getNumber();
    list.until_ns = in.getUntilNs();
    return list;
  };
  return decode_flat<RevocationList, schemas::plan::RevocationList>(
      bytes, "revocation list", kEnvelopeBytesMax, kNestingMax, read);
}

}  // namespace common
