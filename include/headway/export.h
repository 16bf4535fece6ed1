// Symbol visibility: everything is hidden but what carries HEADWAY_API.
#pragma once

#define HEADWAY_API __attribute__((visibility("default")))
