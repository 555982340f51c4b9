// Inside common/wire: writes and reads the parts that graphs, programs and plans are made of.
// No other component may include this header: it brings Cap'n Proto's own.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/ir/llir/llir.h"
#include "common/wire/capnp_support.h"
#include "schemas/ir.capnp.h"

namespace common {

using Refs = capnp::List<int64_t>;
using Ints = capnp::List<int32_t>;

template <class Size>
capnp::uint list_size(Size size) {
  return static_cast<capnp::uint>(size);
}

// Printable ASCII of up to kNameBytesMax bytes; throws Malformed.
std::string get_name(capnp::Text::Reader in, const char* what);
// Clean UTF-8 of up to kTextBytesMax bytes; throws Malformed.
std::string get_clean_text(capnp::Text::Reader in, const char* what);

// Fills builders and collects the expressions they refer to. One for each document.
class IrWriter {
 public:
  // The reference that stands for the expression.
  int64_t ref(const Expr& expr);
  void refs(Refs::Builder out, const std::vector<Expr>& exprs);
  void symbols(capnp::List<schemas::ir::SymbolRange>::Builder out,
               const std::vector<SymbolRange>& symbols);
  void inputs(capnp::List<schemas::ir::GraphInput>::Builder out,
              const std::vector<GraphInput>& inputs);
  void outputs(capnp::List<schemas::ir::GraphOutput>::Builder out,
               const std::vector<GraphOutput>& outputs);
  void buffers(capnp::List<schemas::ir::Buffer>::Builder out, const std::vector<Buffer>& buffers);
  void calls(capnp::List<schemas::ir::Call>::Builder out, const std::vector<Call>& calls);
  void graph(schemas::ir::Graph::Builder out, const Graph& graph);
  void nest(schemas::ir::LoopNest::Builder out, const LoopNest& nest);
  void tiling(schemas::ir::Tiling::Builder out, const Tiling& tiling);
  // With its expression table.
  void program(schemas::ir::Program::Builder out, const Program& program);

  // The table, once everything else is written.
  size_t expr_count() const { return table_.size(); }
  void exprs(capnp::List<schemas::ir::ExprEntry>::Builder out);

 private:
  void band(schemas::ir::LoopBand::Builder out, const LoopBand& band);
  void kernel(schemas::ir::Kernel::Builder out, const Kernel& kernel);
  void entry(schemas::ir::ExprEntry::Builder out, const Expr& expr);
  void node(schemas::ir::Node::Builder out, const Node& node);
  void view(schemas::ir::View::Builder out, const View& view);
  void coordinates(capnp::List<schemas::ir::Coordinate>::Builder out,
                   const std::vector<Coordinate>& coordinates);
  void loop(schemas::ir::Node::Loop::Builder out, const LoopAttr& attr);
  std::vector<Expr> table_;
  std::unordered_map<Expr, int64_t> known_;
};

// Reads what IrWriter wrote; throws Malformed. What it returns is well-formed but not verified.
class IrReader {
 public:
  explicit IrReader(capnp::List<schemas::ir::ExprEntry>::Reader table);

  Expr expr(int64_t ref) const;
  // An expression over the first `symbols` size symbols and no loop index.
  Expr size_expr(int64_t ref, size_t symbols) const;
  std::vector<Expr> size_exprs(Refs::Reader refs, size_t count_max, size_t symbols) const;
  std::vector<SymbolRange> symbols(capnp::List<schemas::ir::SymbolRange>::Reader in) const;
  std::vector<GraphInput> inputs(capnp::List<schemas::ir::GraphInput>::Reader in,
                                 size_t symbols) const;
  // Without nodes, as in programs and plans, every output's node is -1.
  std::vector<GraphOutput> outputs(capnp::List<schemas::ir::GraphOutput>::Reader in, size_t symbols,
                                   bool with_nodes) const;
  std::vector<Buffer> buffers(capnp::List<schemas::ir::Buffer>::Reader in, size_t symbols) const;
  std::vector<Call> calls(capnp::List<schemas::ir::Call>::Reader in, size_t symbols) const;
  // Empty where there is none, which is told by its groups: asking whether a pointer is set follows
  // it, and may be more than a message's own size allows.
  std::optional<LoopNest> nest(schemas::ir::LoopNest::Reader in, size_t symbols) const;
  // Empty where there is none, which is told by its form.
  std::optional<Tiling> tiling(schemas::ir::Tiling::Reader in, size_t symbols) const;
  Graph graph(schemas::ir::Graph::Reader in);
  // Everything but its expression table, which this reader was made from.
  Program program(schemas::ir::Program::Reader in);

 private:
  struct Measure {
    uint32_t weight = 1, depth = 1;
  };
  Expr entry(schemas::ir::ExprEntry::Reader in, Measure& measure) const;
  Expr pair(schemas::ir::ExprEntry::Reader in, Measure& measure) const;
  Expr sum(schemas::ir::ExprEntry::Sum::Reader in, Measure& measure) const;
  Expr part(int64_t ref, Measure& measure) const;
  Node node(schemas::ir::Node::Reader in, size_t symbols);
  Attr attribute(schemas::ir::Node::Reader in);
  View view(schemas::ir::View::Reader in) const;
  std::vector<Coordinate> coordinates(capnp::List<schemas::ir::Coordinate>::Reader in) const;
  LoopAttr loop(schemas::ir::Node::Loop::Reader in);
  Kernel kernel(schemas::ir::Kernel::Reader in);

  std::vector<Expr> table_;
  std::vector<Measure> measures_;
  size_t nodes_ = 0;  // read so far
};

}  // namespace common
