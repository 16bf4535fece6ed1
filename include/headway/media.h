// All of libheadway_media: sounds and pictures. Includes headway/text.h, and is installed only together with
// libheadway_media.
#pragma once

#include "headway/audio.h"
#include "headway/image.h"
#include "headway/image_captioner.h"
#include "headway/picture_classifier.h"
#include "headway/text.h"
#include "headway/transcriber.h"
