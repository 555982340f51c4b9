#include "tests/paths/paths.h"

namespace paths {

std::string fixtures(std::string_view below) { return LFARM_TEST_DATA + std::string(below); }
std::string shared(std::string_view below) { return LFARM_SHARED + std::string(below); }
std::string binaries(std::string_view below) { return LFARM_BIN_DIR + std::string(below); }

}  // namespace paths
