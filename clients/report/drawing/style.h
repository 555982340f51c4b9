// How a report looks: light and dark, on paper, and at the width of a phone.
#pragma once

namespace clients {

extern const char* const kReportStyle;

}  // namespace clients
