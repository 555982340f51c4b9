// The e-graph as text, and the full sweep that tests hold it to.
#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/base/contains.h"
#include "coordinator/egraph/egraph.h"

namespace coordinator {

using common::cat;

std::string EGraph::dump(const std::function<std::string(Head)>& head_name) const {
  std::string out;
  for (ClassId c : classes()) {
    std::vector<std::string> lines;
    for_each_node(c, [&](NodeId n) {
      std::string text = head_name(head(n));
      if (arity(n) > 0) {
        text = cat("(", text);
        for (ClassId child : children(n)) text += cat(" c", find(child));
        text += ')';
      }
      lines.push_back(std::move(text));
    });
    std::sort(lines.begin(), lines.end());
    out += cat("c", c, ":");
    for (size_t i = 0; i < lines.size(); ++i) out += cat(i == 0 ? " " : " | ", lines[i]);
    out += '\n';
  }
  return out;
}

common::Result<std::string> EGraph::explain(
    ClassId a, ClassId b, const std::function<std::string(Head)>& head_name) const {
  if (!why_.proofs)
    return common::invalid_input("explain: the e-graph was made without explanations");
  if (a >= class_ids() || b >= class_ids() || find(a) != find(b)) {
    return common::invalid_input(cat("explain: c", a, " and c", b, " are not known to be equal"));
  }
  return why_.proofs->explain(a, b, head_name);
}

#ifndef LFARM_CHECK_INVARIANTS
void EGraph::check_in_debug_builds() {}
#else
// A sweep costs far more than a rebuild: small e-graphs are swept each time, large ones ever more
// rarely.
void EGraph::check_in_debug_builds() {
  constexpr size_t kSmall = 2000;
  if (!is_clean() || (node_ids() > kSmall && !std::has_single_bit(++counts_.rebuilds))) return;
  common::Status status = check_invariants();
  LFARM_CHECK(status.ok(), status.ok() ? "" : status.error().message);
}
#endif

// The counts kept of a class's lists, dead entries included.
common::Status EGraph::check_lists(ClassId cls) const {
  const ClassRecord& c = classes_[cls];
  uint32_t nodes = 0, dead_nodes = 0, parents = 0, dead_parents = 0;
  for (NodeId n = c.nodes_first; n != kNone; n = nodes_[n].next) {
    ++nodes;
    dead_nodes += nodes_[n].head == kNone;
  }
  for (uint32_t s = c.parents_first; s != kNone; s = link(s)) {
    ++parents;
    dead_parents += nodes_[owner(s)].head == kNone;
  }
  if (nodes == c.node_count && dead_nodes == c.dead_nodes && parents == c.parent_count &&
      dead_parents == c.dead_parents) {
    return {};
  }
  return common::internal_error(cat("class ", cls, " has lists of ", nodes, " nodes, ", dead_nodes,
                                    " dead, and ", parents, " parents, ", dead_parents,
                                    " dead, counted as ", c.node_count, ", ", c.dead_nodes, ", ",
                                    c.parent_count, ", ", c.dead_parents));
}

common::Status EGraph::check_invariants() const {
  auto broken = [](auto... parts) { return common::internal_error(cat(parts...)); };
  if (!is_clean()) return broken("the e-graph has pending merges: call rebuild() first");
  std::map<std::pair<Head, std::vector<ClassId>>, NodeId> keys;
  size_t live = 0;
  std::vector<size_t> uses(class_ids(), 0), members(class_ids(), 0);
  for (NodeId n = 0; n < node_ids(); ++n) {
    if (!is_live(n)) continue;
    ++live;
    ClassId cls = nodes_[n].cls;
    if (find(cls) != cls) return broken("node ", n, " lies in merged class ", cls);
    ++members[cls];
    std::vector<ClassId> key;
    for (ClassId child : children(n)) {
      if (find(child) != child) return broken("node ", n, " has merged child ", child);
      ++uses[child];
      key.push_back(child);
    }
    auto [other, fresh] = keys.try_emplace({head(n), key}, n);
    if (!fresh) return broken("nodes ", other->second, " and ", n, " are congruent");
    if (probe(head(n), key) != n) return broken("node ", n, " is not found under its key");
  }
  if (live != counts_.live_nodes)
    return broken("counted ", live, " nodes, expected ", counts_.live_nodes);
  size_t canonical = 0;
  for (ClassId c = 0; c < class_ids(); ++c) {
    if (find(c) != c) continue;
    ++canonical;
    size_t listed = 0, listed_uses = 0;
    bool wrong = false;
    for_each_node(c, [&](NodeId n) {
      ++listed;
      wrong |= nodes_[n].cls != c;
    });
    for_each_parent(c, [&](NodeId n) {
      ++listed_uses;
      auto all = children(n);
      wrong |= !common::contains(all, c);
    });
    if (wrong) return broken("class ", c, " lists a node that is not its own");
    if (listed != members[c]) return broken("class ", c, " lists ", listed, " of ", members[c]);
    if (listed != node_count(c)) return broken("class ", c, " miscounts its nodes");
    if (listed_uses != uses[c]) return broken("class ", c, " misses a parent");
    LFARM_RETURN_IF_ERROR(check_lists(c));
  }
  for (ClassId c = 0; why_.proofs && c < class_ids(); ++c) {
    if (why_.proofs->root(c) != why_.proofs->root(find(c)))
      return broken("class ", c, " lacks a proof");
  }
  if (canonical != class_count()) return broken("miscounted classes: ", canonical);
  if (node_ids() != class_ids()) return broken("a node was not made with a class of its own");
  size_t logged = 0, entries = 0;
  for (Head h = 0; h < heads_.all.size(); ++h) {
    size_t here = 0;
    for_each_with_head(h, [&](NodeId) { ++here; });
    if (here != heads_.all[h].live) return broken("head ", h, " indexes ", here, " nodes");
    logged += here;
    entries += heads_.all[h].log.size();
    for (size_t i = 1; i < heads_.all[h].log.size(); ++i) {
      if (heads_.all[h].log[i].stamp < heads_.all[h].log[i - 1].stamp) {
        return broken("the log of head ", h, " is not in order");
      }
    }
  }
  if (logged != live || entries != heads_.log_entries) return broken("miscounted log entries");
  return {};
}

}  // namespace coordinator
