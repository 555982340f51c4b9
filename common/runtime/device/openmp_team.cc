#include "common/runtime/device/openmp_team.h"

namespace common {

std::shared_ptr<const OpenMpTeam> OpenMpTeam::find() {
  std::shared_ptr<OpenMpTeam> team(new OpenMpTeam());
  // Wheels of PyTorch bring a copy with a name of its own, such as libgomp-a34b3233.so.1.
  team->library_ = SharedLibrary::find_loaded({"libgomp", "libomp", "libiomp5"});
  if (team->library_ == nullptr || !team->library_->find(team->parallel_, "GOMP_parallel") ||
      !team->library_->find(team->thread_number_, "omp_get_thread_num") ||
      !team->library_->find(team->number_of_threads_, "omp_get_num_threads")) {
    return nullptr;
  }
  return team;
}

void OpenMpTeam::run(int members, void (*job)(void*, int), void* context) const {
  struct Region {
    const OpenMpTeam* team;
    int members;
    void (*job)(void*, int);
    void* context;

    static void enter(void* data) {
      const Region& region = *static_cast<const Region*>(data);
      int threads = region.team->number_of_threads_();
      for (int member = region.team->thread_number_(); member < region.members; member += threads) {
        region.job(region.context, member);
      }
    }
  } region{this, members, job, context};
  constexpr unsigned kNoFlags = 0;
  parallel_(Region::enter, &region, static_cast<unsigned>(members), kNoFlags);
}

}  // namespace common
