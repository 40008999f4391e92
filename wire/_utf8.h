/* Checks UTF-8 as strictly as Python's codec: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF. */

#ifndef PENSTOCK_UTF8_H
#define PENSTOCK_UTF8_H

#include <stddef.h>

static inline int
is_utf8(const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        unsigned char lead = *at++;
        unsigned char low = 0x80, high = 0xbf; /* the range of the second byte */
        ptrdiff_t more;
        if (lead < 0x80)
            continue;
        if (lead < 0xc2 || lead > 0xf4)
            return 0;
        if (lead < 0xe0) {
            more = 1;
        } else if (lead < 0xf0) {
            more = 2;
            low = lead == 0xe0 ? 0xa0 : low;
            high = lead == 0xed ? 0x9f : high;
        } else {
            more = 3;
            low = lead == 0xf0 ? 0x90 : low;
            high = lead == 0xf4 ? 0x8f : high;
        }
        if (more > end - at || *at < low || *at > high)
            return 0;
        for (at++; more > 1; more--) {
            if ((*at++ & 0xc0) != 0x80)
                return 0;
        }
    }
    return 1;
}

#endif
