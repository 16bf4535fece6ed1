// The version of these headers, for the preprocessor; version() of headway/info.h is that of the library.
#pragma once

#define HEADWAY_VERSION_MAJOR 0
#define HEADWAY_VERSION_MINOR 2
#define HEADWAY_VERSION_PATCH 0
#define HEADWAY_VERSION "0.2.0"
