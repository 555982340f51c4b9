// Loop nests and tilings, as kernels carry them. What they say is checked with the kernel that they
// belong to.
#include "common/wire/capnp_support.h"
#include "common/wire/ir_pieces.h"
#include "common/wire/limits.h"

namespace common {

namespace ir = schemas::ir;

namespace {

constexpr size_t kLoopsMax = kRankMax;

using Ints = capnp::List<int32_t>;

template <class Ids>
void put_ids(Ints::Builder out, const Ids& ids) {
  uint32_t k = 0;
  for (NodeId id : ids) out.set(k++, id);
}

LoopBand get_band(const IrReader& reader, ir::LoopBand::Reader in, size_t symbols) {
  LoopBand band;
  band.extents = reader.size_exprs(in.getExtents(), kLoopsMax, symbols);
  auto position = in.getPosition();
  check_count(position, kRankMax, "axes");
  for (int64_t ref : position) band.position.push_back(reader.expr(ref));
  return band;
}

}  // namespace

void IrWriter::band(ir::LoopBand::Builder out, const LoopBand& band) {
  if (!band.extents.empty()) refs(out.initExtents(list_size(band.extents.size())), band.extents);
  if (!band.position.empty())
    refs(out.initPosition(list_size(band.position.size())), band.position);
}

void IrWriter::nest(ir::LoopNest::Builder out, const LoopNest& nest) {
  out.setEpilogue(nest.is_epilogue);
  band(out.initShared(), nest.shared);
  out.setGrid(list_size(nest.grid));
  out.setBlocksInGrid(nest.blocks_in_grid);
  auto groups = out.initGroups(list_size(nest.groups.size()));
  for (size_t g = 0; g < nest.groups.size(); ++g) {
    const GroupNest& group = nest.groups[g];
    band(groups[list_size(g)].initOwn(), group.own);
    if (!group.accumulators) continue;
    groups[list_size(g)].setWidth(group.accumulators->width);
    groups[list_size(g)].setBefore(list_size(group.accumulators->before));
  }
  out.setTransposed(nest.transposed);
  const ReductionChoices& choices = nest.reductions;
  if (!choices.fused.empty()) {
    auto fused = out.initFused(list_size(choices.fused.size()));
    uint32_t k = 0;
    for (const auto& [first, others] : choices.fused) {
      fused[k].setFirst(first);
      put_ids(fused[k++].initOthers(list_size(others.size())), others);
    }
  }
  if (!choices.flat.empty()) {
    put_ids(out.initFlat(list_size(choices.flat.size())), choices.flat);
  }
  if (!choices.staged.empty()) {
    put_ids(out.initStaged(list_size(choices.staged.size())), choices.staged);
  }
  if (!choices.walked.empty()) {
    put_ids(out.initWalked(list_size(choices.walked.size())), choices.walked);
  }
  out.setSimd(nest.simd);
  out.setUnroll(nest.unroll);
  out.setDotProducts(nest.dot_products);
  out.setThreads(nest.threads.threads);
  out.setSide(nest.threads.side);
  out.setBlocks(nest.threads.blocks);
  out.setAccess(nest.threads.access);
  out.setRows(nest.threads.rows);
  out.setAhead(nest.threads.ahead);
  if (nest.prefetch) {
    out.setPrefetchInput(nest.prefetch->input);
    out.setPrefetchBytes(nest.prefetch->bytes);
  }
}

std::optional<LoopNest> IrReader::nest(ir::LoopNest::Reader in, size_t symbols) const {
  auto groups = in.getGroups();
  if (groups.size() == 0) return std::nullopt;
  check_count(groups, kNodesMax, "groups of outputs");
  LoopNest nest;
  nest.is_epilogue = in.getEpilogue();
  nest.shared = get_band(*this, in.getShared(), symbols);
  nest.grid = in.getGrid();
  nest.blocks_in_grid = in.getBlocksInGrid();
  for (auto entry : groups) {
    GroupNest group{get_band(*this, entry.getOwn(), symbols), {}};
    if (entry.getWidth() != 0) {
      group.accumulators = AccumulatorBlock{entry.getBefore(), entry.getWidth()};
    }
    nest.groups.push_back(std::move(group));
  }
  nest.transposed = in.getTransposed();
  auto fused = in.getFused();
  check_count(fused, kNodesMax, "fused reductions");
  for (auto entry : fused) {
    nest.reductions.fused[entry.getFirst()] =
        get_numbers<int32_t>(entry.getOthers(), kNodesMax, "fused reductions");
  }
  for (int32_t id : get_numbers<int32_t>(in.getFlat(), kNodesMax, "reductions")) {
    nest.reductions.flat.insert(id);
  }
  for (int32_t id : get_numbers<int32_t>(in.getStaged(), kNodesMax, "rows")) {
    nest.reductions.staged.insert(id);
  }
  for (int32_t id : get_numbers<int32_t>(in.getWalked(), kNodesMax, "reductions")) {
    nest.reductions.walked.insert(id);
  }
  nest.simd = in.getSimd();
  nest.unroll = in.getUnroll();
  nest.dot_products = in.getDotProducts();
  nest.threads = {in.getThreads(), in.getSide(), in.getBlocks(),
                  in.getAccess(),  in.getRows(), in.getAhead()};
  if (in.getPrefetchBytes() != 0) {
    nest.prefetch = BlockPrefetch{in.getPrefetchInput(), in.getPrefetchBytes()};
  }
  return nest;
}

void IrWriter::tiling(ir::Tiling::Builder out, const Tiling& tiling) {
  out.setForm(kj_text(tiling.form));
  auto sizes = out.initSizes(list_size(tiling.sizes.size()));
  uint32_t k = 0;
  for (const auto& [name, size] : tiling.sizes) {
    sizes[k].setName(kj_text(name));
    sizes[k++].setValue(ref(size));
  }
}

std::optional<Tiling> IrReader::tiling(ir::Tiling::Reader in, size_t symbols) const {
  // Once: a message bounds how often its pointers are followed.
  const auto form = in.getForm();
  if (form.size() == 0) return std::nullopt;
  Tiling tiling{get_name(form, "a form of tiling"), {}};
  auto sizes = in.getSizes();
  check_count(sizes, kTilingSizesMax, "sizes of a tiling");
  for (auto size : sizes) {
    std::string name = get_name(size.getName(), "a size of a tiling");
    if (!tiling.sizes.emplace(name, size_expr(size.getValue(), symbols)).second) {
      throw Malformed{cat("a tiling with two sizes named ", name)};
    }
  }
  return tiling;
}

void IrWriter::kernel(ir::Kernel::Builder out, const Kernel& kernel) {
  out.setForm(static_cast<ir::Template>(kernel.form));
  auto schedule = out.initSchedule(list_size(kernel.schedule.size()));
  for (size_t k = 0; k < kernel.schedule.size(); ++k) {
    schedule[list_size(k)].setName(kj_text(kernel.schedule[k].name));
    schedule[list_size(k)].setValue(kernel.schedule[k].value);
  }
  graph(out.initBody(), kernel.body);
  if (kernel.nest) nest(out.initNest(), *kernel.nest);
  if (kernel.tiling) tiling(out.initTiling(), *kernel.tiling);
  if (kernel.part_nests.empty()) return;
  auto parts = out.initPartNests(list_size(kernel.part_nests.size()));
  for (size_t k = 0; k < kernel.part_nests.size(); ++k) {
    if (!kernel.part_nests[k].groups.empty()) nest(parts[list_size(k)], kernel.part_nests[k]);
  }
}

Kernel IrReader::kernel(ir::Kernel::Reader in) {
  Kernel kernel;
  kernel.form = get_enum(in.getForm(), static_cast<Template>(kTemplateCount - 1), "template");
  auto schedule = in.getSchedule();
  check_count(schedule, kScheduleParametersMax, "schedule parameters");
  for (auto parameter : schedule) {
    kernel.schedule.push_back(
        {get_name(parameter.getName(), "a schedule parameter"), parameter.getValue()});
  }
  kernel.body = graph(in.getBody());
  kernel.nest = nest(in.getNest(), kernel.body.symbols.size());
  kernel.tiling = tiling(in.getTiling(), kernel.body.symbols.size());
  auto parts = in.getPartNests();
  check_count(parts, kHorizontalPartsMax, "nests of parts");
  for (auto part : parts) {
    kernel.part_nests.push_back(nest(part, kernel.body.symbols.size()).value_or(LoopNest()));
  }
  return kernel;
}

}  // namespace common
