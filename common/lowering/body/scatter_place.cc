#include "common/lowering/body/scatter_place.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"

namespace common {
namespace {

class PlaceEmitter {
 public:
  PlaceEmitter(BodyEmitter& emitter, const Node& scatter, const Indices& indices)
      : emitter_(emitter), writer_(emitter.writer()), scatter_(scatter), indices_(indices) {}

  ScatterPlace run() {
    const auto& coordinates = attr<ScatterAttr>(scatter_).coordinates;
    for (size_t axis = 0; axis < coordinates.size(); ++axis) {
      const Expr& size = scatter_.shape[axis];
      place_.position.push_back(coordinates[axis].slot < 0 ? computed(coordinates[axis], size)
                                                           : loaded(coordinates[axis], size));
    }
    return std::move(place_);
  }

 private:
  Expr computed(const Coordinate& c, const Expr& size) {
    Expr position = writer_.simplify(with_indices(c.expr, indices_));
    const Bounds& bounds = writer_.bounds();
    if (!bounds.provably_non_negative(position) || !bounds.provably_less(position, size)) {
      require(writer_.text(position), size, writer_.level_of(position));
    }
    return position;
  }

  Expr loaded(const Coordinate& c, const Expr& size) {
    CodeValue x = emitter_.value(scatter_.operands[at(c.slot) + 2], indices_);
    CodeValue wide = writer_.declare(x.level, "int64_t", "g", cat("(int64_t)", x.text));
    require(wide.text, size, wide.level);
    return Expr::index(writer_.bind_index(wide.text, size, wide.level));
  }

  void require(const std::string& position, const Expr& size, int level) {
    place_.guard.condition += cat(place_.guard.condition.empty() ? "" : " & ", "(", position,
                                  " >= 0) & (", position, " < ", writer_.text(size), ")");
    place_.guard.level = std::max(place_.guard.level, level);
  }

  BodyEmitter& emitter_;
  CodeWriter& writer_;
  const Node& scatter_;
  const Indices& indices_;
  ScatterPlace place_;
};

}  // namespace

ScatterPlace scatter_place(BodyEmitter& emitter, const Node& scatter, const Indices& indices) {
  return PlaceEmitter(emitter, scatter, indices).run();
}

}  // namespace common
