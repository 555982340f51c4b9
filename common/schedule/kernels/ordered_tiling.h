// How blocks of a GPU's threads sort and scan lines: by which method, with how many threads.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"
#include "common/schedule/sort_blocks.h"

namespace common {

struct SortTiling {
  static constexpr std::string_view kForm = "sort";
  int64_t method = 0;   // the number of a SortMethod
  int64_t places = 0;   // items that are sorted at once, with padding, or counters of keys
  int64_t threads = 0;  // of a block
  bool packed = false;  // 32 bits of an item hold its key, and others its position

  SortBlocks blocks() const;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("method", t.method);
    visit("places", t.places);
    visit("threads", t.threads);
    visit("packed", t.packed);
  }
};

struct ScanTiling {
  static constexpr std::string_view kForm = "scan";
  // Of a block, which share one line along the last axis and have a line each along others.
  int64_t threads = 256;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("threads", t.threads);
  }
};

// `body` is lowered. By sort_blocks(); empty unless the body's one output is a sort.
std::optional<SortTiling> choose_sort_tiling(const Graph& body);

// Of a body whose one output is a sort. kInvalidInput says what does not fit its lines or a block.
Status verify(const SortTiling& tiling, const Graph& body);

// `body` is lowered. Empty unless the body's one output is a scan.
std::optional<ScanTiling> choose_scan_tiling(const Graph& body);
// kInvalidInput for threads that make no block.
Status verify(const ScanTiling& tiling);

}  // namespace common
