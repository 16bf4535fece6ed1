// Symbol visibility: only what is marked HEADWAY_API is visible.
#pragma once

#define HEADWAY_API __attribute__((visibility("default")))
