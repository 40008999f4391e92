"""Tables about agents and other programs: their health, lags, and events on the time axis."""
